package main

import (
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"radwitness/pkg/credentials"
	"radwitness/pkg/fleet"
)

// grant is one statement of a role. reason says why a resource has a wildcard,
// and is empty where none has.
type grant struct {
	sid       string
	actions   []string
	resources []*string
	reason    string
	deny      bool
	condition map[string]any
}

func (g grant) statement() awsiam.PolicyStatement {
	effect := awsiam.Effect_ALLOW
	if g.deny {
		effect = awsiam.Effect_DENY
	}
	props := &awsiam.PolicyStatementProps{
		Sid:       &g.sid,
		Effect:    effect,
		Actions:   strs(g.actions),
		Resources: &g.resources,
	}
	if g.condition != nil {
		props.Conditions = &g.condition
	}
	return awsiam.NewPolicyStatement(props)
}

type role = awsiam.Role

// newRole makes the role of a function, with these permissions and no others.
func (s *stack) newRole(id string, grants []grant) role {
	return s.newServiceRole(id, awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil), grants)
}

func (s *stack) newServiceRole(id string, service awsiam.IPrincipal, grants []grant) role {
	var statements []awsiam.PolicyStatement
	for _, g := range grants {
		statements = append(statements, g.statement())
	}
	r := awsiam.NewRole(s.scope, &id, &awsiam.RoleProps{
		AssumedBy: service,
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"Permissions": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &statements}),
		},
	})
	for _, g := range grants {
		for _, resource := range g.resources {
			if g.reason != "" && strings.Contains(*resource, "*") {
				explain(r, finding{id: "AwsSolutions-IAM5", appliesTo: "Resource::" + *resource, reason: g.reason})
			}
		}
	}
	return r
}

// proberGrants are the permissions of the prober: one table, the secrets that
// fleet.yaml names, and a place in the VPC.
func (s *stack) proberGrants(t tables, q queues, n network, logs awslogs.LogGroup) []grant {
	grants := []grant{
		{sid: "WriteProbes", actions: []string{"dynamodb:Query", "dynamodb:UpdateItem"}, resources: []*string{t.probes.TableArn()}},
		writeLogs(logs),
		{sid: "ReportFailures", actions: []string{"sqs:SendMessage"}, resources: []*string{q.prober.QueueArn()}},
	}
	grants = append(grants, s.secretGrants()...)
	return append(grants, s.vpcGrants(n)...)
}

// eventBus is where the reconciler announces changes: the account's own bus,
// which costs nothing to have and needs no rule to exist.
const eventBus = "default"

func (s *stack) eventBusARN() *string {
	return s.scope.FormatArn(&awscdk.ArnComponents{Service: jsii.String("events"), Resource: jsii.String("event-bus"), ResourceName: jsii.String(eventBus)})
}

// reconcilerGrants are the permissions of the reconciler: it reads one table,
// owns the other, and changes the target groups of groups that are enforced.
func (s *stack) reconcilerGrants(t tables, q queues, logs awslogs.LogGroup) []grant {
	grants := []grant{
		{sid: "ReadProbes", actions: []string{"dynamodb:Query"}, resources: []*string{t.probes.TableArn()}},
		{sid: "KeepHealth", actions: []string{"dynamodb:PutItem", "dynamodb:Query"}, resources: []*string{t.health.TableArn()}},
		{
			sid:       "ReadStream",
			actions:   []string{"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams"},
			resources: []*string{t.probes.TableStreamArn()},
		},
		writeLogs(logs),
		{sid: "ReportFailures", actions: []string{"sqs:SendMessage"}, resources: []*string{q.reconciler.QueueArn()}},
		{sid: "AnnounceChanges", actions: []string{"events:PutEvents"}, resources: []*string{s.eventBusARN()}},
		{
			sid:       "SeeTargets",
			actions:   []string{"elasticloadbalancing:DescribeTargetGroups", "elasticloadbalancing:DescribeTargetHealth"},
			resources: []*string{jsii.String("*")},
			reason:    "Elastic Load Balancing's Describe actions take no resource.",
		},
		{
			sid:       "FindInstances",
			actions:   []string{"ec2:DescribeInstances"},
			resources: []*string{jsii.String("*")},
			reason:    "EC2's Describe actions take no resource; instance target groups need the instance that has a server's address.",
		},
	}
	if targetGroups := s.enforcedTargetGroups(); len(targetGroups) > 0 {
		grants = append(grants, grant{
			sid:       "ChangeTargets",
			actions:   []string{"elasticloadbalancing:DeregisterTargets", "elasticloadbalancing:RegisterTargets"},
			resources: *strs(targetGroups),
		})
	}
	return grants
}

// enforcedTargetGroups lists the target groups that may be changed. Those of a
// group in observe mode are not among them, so that it cannot harm even by a
// mistake of ours.
func (s *stack) enforcedTargetGroups() []string {
	var arns []string
	for _, g := range s.fleet.Groups {
		if g.Mode != fleet.Enforce {
			continue
		}
		for _, tg := range g.TargetGroups {
			arns = append(arns, tg.ARN)
		}
	}
	return arns
}

func writeLogs(logs awslogs.LogGroup) grant {
	return grant{
		sid:       "WriteLogs",
		actions:   []string{"logs:CreateLogStream", "logs:PutLogEvents"},
		resources: []*string{logs.LogGroupArn()},
	}
}

// secretGrants let the prober read exactly the secrets that servers use.
func (s *stack) secretGrants() []grant {
	var secrets, parameters []*string
	for _, c := range s.credentials() {
		switch {
		case strings.HasPrefix(c.SecretsManager, "arn:"):
			secrets = append(secrets, &c.SecretsManager)
		case c.SecretsManager != "":
			// Secrets Manager ends the ARN of a named secret in six characters of its own.
			secrets = append(secrets, jsii.String(s.home.arn("secretsmanager", "secret:"+c.SecretsManager+"-??????")))
		case strings.HasPrefix(c.SSM, "arn:"):
			parameters = append(parameters, &c.SSM)
		case c.SSM != "":
			parameters = append(parameters, jsii.String(s.home.arn("ssm", "parameter/"+strings.TrimPrefix(c.SSM, "/"))))
		}
	}
	var grants []grant
	if len(secrets) > 0 {
		grants = append(grants, grant{
			sid: "ReadSecrets", actions: []string{"secretsmanager:GetSecretValue"}, resources: secrets,
			condition: map[string]any{"StringEquals": map[string][]string{
				"secretsmanager:VersionStage": {string(credentials.Current), string(credentials.Previous)},
			}},
		})
	}
	if len(parameters) > 0 {
		grants = append(grants, grant{sid: "ReadParameters", actions: []string{"ssm:GetParameter"}, resources: parameters})
	}
	if len(s.deploy.KMSKeys) > 0 {
		grants = append(grants, grant{
			sid: "DecryptSecrets", actions: []string{"kms:Decrypt"}, resources: *strs(s.deploy.KMSKeys),
			// The keys may guard more than our secrets.
			condition: map[string]any{"StringEquals": map[string][]string{"kms:ViaService": {
				"secretsmanager." + s.home.region + ".amazonaws.com", "ssm." + s.home.region + ".amazonaws.com",
			}}},
		})
	}
	return grants
}

// vpcGrants are what Lambda needs to put the prober into the VPC. Lambda uses
// them itself, with the function's role; the function's code may not.
func (s *stack) vpcGrants(n network) []grant {
	anyInterface := jsii.String(s.home.arn("ec2", "network-interface/*"))
	where := []*string{anyInterface, jsii.String(s.home.arn("ec2", "security-group/"+*n.securityGroup.SecurityGroupId()))}
	for _, id := range s.deploy.SubnetIDs {
		where = append(where, jsii.String(s.home.arn("ec2", "subnet/"+id)))
	}
	manage := []string{"ec2:AssignPrivateIpAddresses", "ec2:DeleteNetworkInterface", "ec2:UnassignPrivateIpAddresses"}
	see := []string{"ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets"}
	create := []string{"ec2:CreateNetworkInterface"}
	return []grant{
		{
			sid: "CreateNetworkInterfaces", actions: create, resources: where,
			reason: "A network interface has no id before it is created; subnets and security group are exact.",
		},
		{
			sid: "ManageNetworkInterfaces", actions: manage, resources: []*string{jsii.String(s.home.arn("ec2", "*/*"))},
			reason: "Lambda wants all resource ids here (Lambda developer guide, \"Required IAM permissions\" for a VPC), and no code of ours may use it.",
		},
		{
			sid: "SeeNetworkInterfaces", actions: see, resources: []*string{jsii.String("*")},
			reason: "EC2's Describe actions take no resource.",
		},
		{
			sid: "NetworkInterfacesAreLambdas", deny: true,
			actions: slices.Concat(create, manage, see), resources: []*string{jsii.String("*")},
			condition: map[string]any{"ArnEquals": map[string]string{
				"lambda:SourceFunctionArn": s.home.arn("lambda", "function:"+s.functionName("prober")),
			}},
			reason: "A Deny: only Lambda may use the permissions above, not the code that runs with this role.",
		},
	}
}

// newSchedulerRole lets the schedules of our group invoke the prober.
func (s *stack) newSchedulerRole(q queues, f functions) role {
	scheduler := awsiam.NewServicePrincipal(jsii.String("scheduler.amazonaws.com"), &awsiam.ServicePrincipalOpts{
		// Nobody else's schedule may borrow the role.
		Conditions: &map[string]any{"StringEquals": map[string]string{
			"aws:SourceAccount": s.home.account,
			"aws:SourceArn":     s.home.arn("scheduler", "schedule-group/"+s.name),
		}},
	})
	return s.newServiceRole("SchedulerRole", scheduler, []grant{
		{sid: "InvokeProber", actions: []string{"lambda:InvokeFunction"}, resources: []*string{f.prober.FunctionArn()}},
		{sid: "ReportFailures", actions: []string{"sqs:SendMessage"}, resources: []*string{q.prober.QueueArn()}},
	})
}
