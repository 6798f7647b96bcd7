"""Runs ministack the way the deploy test needs it.

EventBridge Scheduler replaces the context attributes in a schedule's input, such
as <aws.scheduler.scheduled-time>; ministack 1.5 delivers them as they stand, so it
is done here. And it looks every second for schedules that are due, not every ten.

With AUTH=true the permissions of roles count. That is wanted of the stack's own
roles, which are named like it; those of the CDK's bootstrap stack use more of IAM
than ministack knows, so all others may do anything. Of the condition keys that our
roles use it lacks secretsmanager:VersionStage.
"""

import dataclasses
import json
from datetime import datetime, timezone

from ministack.app import main
from ministack.core import iam_actions, iam_evaluator
from ministack.services import eventbridge, scheduler

deliver = eventbridge._invoke_target
resolve = iam_evaluator.resolve_principal
request_context = iam_actions.request_tag_context


def deliver_with_context(target, event, rule, view=None):
    if event.get("Source") == "aws.scheduler" and "Input" in target:
        minute = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:00Z")
        text = target["Input"].replace("<aws.scheduler.scheduled-time>", minute)
        target = dict(target, Input=text)
    deliver(target, event, rule, view)


def resolve_with_power(*args):
    principal = resolve(*args)
    if getattr(principal, "policies", None) is not None and "/radwitness-" not in principal.arn:
        principal = dataclasses.replace(principal, policies=None)
    return principal


def context_with_version_stage(service, action, body, params):
    context = request_context(service, action, body, params)
    if action == "secretsmanager:GetSecretValue":
        context["secretsmanager:VersionStage"] = json.loads(body).get("VersionStage")
    return context


eventbridge._invoke_target = deliver_with_context
iam_evaluator.resolve_principal = resolve_with_power
iam_actions.request_tag_context = context_with_version_stage
scheduler._SCHEDULE_TICK_INTERVAL = 1
main()
