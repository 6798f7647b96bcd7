package doctor

import (
	"slices"
	"strings"
	"time"

	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
)

// Pages of other AWS guides.
const (
	pageStates      = "https://docs.aws.amazon.com/lambda/latest/dg/functions-states.html"
	pageConcurrency = "https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html"
	pageTimeout     = "https://docs.aws.amazon.com/lambda/latest/dg/configuration-timeout.html"
	pageSchedules   = "https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html"
	pageExpiry      = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html"
	pageFailures    = "https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html"
	pageClock       = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/set-time.html"
)

const (
	// minute is the rounds of one invocation of the prober.
	minute = time.Minute
	// minReconciler lets a pass sit out a throttled API.
	minReconciler = 30 * time.Second
	// maxClock is what this machine's clock may differ from AWS's: the end of a
	// drain and ages in status are of that accuracy. AWS tells whole seconds.
	maxClock = 5 * time.Second
)

// everyMinute are the expressions of a schedule that fires each minute.
func everyMinute() []string {
	return []string{"cron(* * * * ? *)", "rate(1 minute)", "rate(1 minutes)"}
}

func stackChecks() []Check {
	return []Check{
		{
			Name:     "function",
			Looks:    "Both functions are there, active and up to date.",
			Why:      "Without the prober nothing is known, without the reconciler nothing is done.",
			Mend:     "make deploy; what is wrong says: aws lambda get-function-configuration --function-name {FUNCTION}",
			Source:   pageStates,
			subjects: ofFunctions(checkFunction),
		},
		{
			Name:     "concurrency",
			Looks:    "The functions may run: no reserved concurrency, or enough for every shard.",
			Why:      "With 0 a function is switched off, as docs/deploy.md does to stop everything at once.",
			Mend:     "aws lambda put-function-concurrency --function-name {FUNCTION} --reserved-concurrent-executions 5",
			Source:   pageConcurrency,
			subjects: ofFunctions(checkConcurrency),
		},
		{
			Name:     "timeout",
			Looks:    "The prober has time for a minute of rounds and the longest probe, the reconciler for 30 s.",
			Why:      "Lambda ends a function in the middle of what it does.",
			Mend:     "make deploy sets it",
			Source:   pageTimeout,
			subjects: ofFunctions(checkTimeout),
		},
		{
			Name:  "environment",
			Looks: "The functions work on the tables that these commands read.",
			Why:   "What is shown here would be about something else.",
			Mend: "Unset RADWITNESS_PROBES_TABLE and RADWITNESS_HEALTH_TABLE, so that the deployed tables are found, or choose the stack " +
				"with RADWITNESS_STACK",
			Source:   pageDeploy,
			subjects: ofBoth(checkEnvironment),
		},
		{
			Name:     "fleet-version",
			Looks:    "The functions run with this fleet file.",
			Why:      "What is in the file alone does not count yet.",
			Mend:     "make diff, make deploy; or give these commands the file that is deployed",
			Source:   pageDeploy,
			subjects: ofBoth(checkFleetVersion),
		},
		{
			Name:  "schedule",
			Looks: "Every shard's schedule is there, enabled, and invokes the prober every minute.",
			Why:   "Nothing else starts the prober.",
			Mend: "make deploy with deploy.schedule: true. If somebody switched it off by hand, CloudFormation sees no difference: enable it " +
				"in the EventBridge Scheduler console, schedule group {STACK}",
			Source:   pageSchedules,
			subjects: scheduleSubjects,
		},
		{
			Name:     "table",
			Looks:    "Both tables are there, with the right keys; table probes has a stream of new images.",
			Why:      "The functions cannot work on others.",
			Mend:     "make deploy; a table with other keys belongs to something else: check RADWITNESS_PROBES_TABLE and RADWITNESS_HEALTH_TABLE",
			Source:   pageDeploy,
			subjects: ofTables(checkTable),
		},
		{
			Name:     "expiry",
			Looks:    "Rows expire by the attribute expires_at.",
			Why:      "History grows for ever, and servers that left the fleet stay in table probes.",
			Mend:     "aws dynamodb update-time-to-live --table-name {TABLE} --time-to-live-specification Enabled=true,AttributeName=expires_at",
			Source:   pageExpiry,
			subjects: ofTables(checkExpiry),
		},
		{
			Name:     "failures",
			Looks:    "The queues of what the functions could not work on are empty.",
			Why:      "Minutes were not probed, or records were given up.",
			Mend:     "Read the messages, and delete them when understood: aws sqs receive-message --queue-url {QUEUE}",
			Source:   pageFailures,
			subjects: queueSubjects,
		},
		{
			Name:   "clock",
			Looks:  "This machine's clock agrees with AWS's within 5 s.",
			Why:    "Ages are shown wrong, and a drain ends at another time than was meant.",
			Mend:   "Set the clock: chronyc tracking, timedatectl",
			Source: pageClock,
			subjects: one("this machine", func(f *Facts) []verdict {
				switch {
				case f.Skew == nil:
					return nil
				case f.Skew.Abs() > maxClock:
					return []verdict{warn("its clock differs from AWS's by %v", f.Skew.Abs().Round(time.Second))}
				}
				return []verdict{ok("its clock agrees with AWS's within %v", maxClock)}
			}),
		},
	}
}

func checkFunction(_ *Facts, fn *Function) []verdict {
	switch {
	case fn.Missing:
		return []verdict{fail("is not there")}
	case fn.State != "" && fn.State != lambdatypes.StateActive && fn.State != lambdatypes.StateInactive:
		return []verdict{fail("is %s", because(strings.ToLower(string(fn.State)), fn.StateReason))}
	case fn.Update != "" && fn.Update != lambdatypes.LastUpdateStatusSuccessful:
		return []verdict{fail("its last update: %s", strings.ToLower(string(fn.Update)))}
	}
	return []verdict{ok("is there and active")}
}

func checkConcurrency(f *Facts, fn *Function) []verdict {
	if fn.Missing || !fn.Concurrency {
		return nil
	}
	need := int32(1)
	if fn == f.Prober {
		need = int32(2 * len(f.Schedules)) // a minute ends a little after the next has begun
	}
	switch {
	case fn.Reserved == nil:
		return []verdict{ok("none is reserved")}
	case *fn.Reserved == 0:
		return []verdict{fail("is switched off: its reserved concurrency is 0")}
	case *fn.Reserved < need:
		return []verdict{warn("reserved concurrency is %d, and %d may run at once", *fn.Reserved, need)}
	}
	return []verdict{ok("%d reserved", *fn.Reserved)}
}

func checkTimeout(f *Facts, fn *Function) []verdict {
	if fn.Missing || fn.Timeout == 0 {
		return nil
	}
	need := minReconciler
	if fn == f.Prober {
		var longest time.Duration
		for _, g := range f.Fleet.Groups {
			for _, s := range g.Servers {
				for _, c := range s.Checks {
					longest = max(longest, c.Budget())
				}
			}
		}
		need = minute + longest
	}
	if fn.Timeout < need {
		return []verdict{warn("%v, and it needs %v", fn.Timeout, need)}
	}
	return []verdict{ok("%v", fn.Timeout)}
}

func checkEnvironment(f *Facts, fn *Function) []verdict {
	var list []verdict
	for _, t := range []struct{ variable, ours string }{
		{"RADWITNESS_PROBES_TABLE", f.ProbesTable}, {"RADWITNESS_HEALTH_TABLE", f.HealthTable},
	} {
		if theirs := fn.Environment[t.variable]; theirs != "" && theirs != t.ours {
			list = append(list, fail("%s is %s there, and %s here", t.variable, theirs, t.ours))
		}
	}
	if list == nil {
		list = append(list, ok("the tables are these"))
	}
	return list
}

func checkFleetVersion(f *Facts, fn *Function) []verdict {
	switch deployed := fn.Environment["RADWITNESS_FLEET_VERSION"]; deployed {
	case "":
		return []verdict{warn("not checked: nothing says which file is deployed; the next deployment will")}
	case f.FileVersion:
		return []verdict{ok("version %s", deployed)}
	default:
		return []verdict{warn("version %s is deployed, and this file is version %s", deployed, f.FileVersion)}
	}
}

func scheduleSubjects(f *Facts) []judged {
	var list []judged
	for _, s := range f.Schedules {
		if v := checkSchedule(f, s); v.level != "" {
			list = append(list, judged{subject{name: "schedule " + s.Name, fill: []string{"{STACK}", f.Stack}}, []verdict{v}})
		}
	}
	return list
}

func checkSchedule(f *Facts, s *Schedule) verdict {
	switch {
	case s.Missing:
		return fail("is not there")
	case s.State == "":
		return verdict{} // a gap says so
	case s.State != schedulertypes.ScheduleStateEnabled && f.Fleet.Deploy != nil && !f.Fleet.Deploy.Schedule:
		return warn("is disabled, as fleet.yaml has it (deploy.schedule: false)")
	case s.State != schedulertypes.ScheduleStateEnabled:
		return fail("is disabled")
	case !slices.Contains(everyMinute(), s.Expression):
		return fail("fires at %s, not every minute", s.Expression)
	case s.Window != "" && s.Window != schedulertypes.FlexibleTimeWindowModeOff:
		return warn("fires within a flexible time window: minutes come late, or overlap")
	case f.Prober != nil && !strings.HasSuffix(s.Target, ":function:"+f.Prober.Name) && !strings.Contains(s.Target, ":function:"+f.Prober.Name+":"):
		return fail("invokes %s, not the prober", s.Target)
	}
	return ok("is enabled, every minute")
}

// ofTables makes a check of both tables.
func ofTables(look func(*Table) []verdict) func(*Facts) []judged {
	return func(f *Facts) []judged {
		var list []judged
		for _, t := range f.Tables {
			list = append(list, judged{subject{name: "table " + t.Name, fill: []string{"{TABLE}", t.Name}}, look(t)})
		}
		return list
	}
}

func checkTable(t *Table) []verdict {
	want := []string{"group", t.SortKey}
	switch {
	case t.Missing:
		return []verdict{fail("is not there")}
	case t.Status == "":
		return nil
	case t.Status != "ACTIVE" && t.Status != "UPDATING":
		return []verdict{fail("is %s", strings.ToLower(t.Status))}
	case !slices.Equal(t.Keys, want):
		return []verdict{fail("its keys are %v, not %v", t.Keys, want)}
	case t.Streams && t.StreamARN == "":
		return []verdict{fail("has no stream: the reconciler learns nothing")}
	case t.Streams && !strings.HasPrefix(t.View, "NEW"):
		return []verdict{fail("its stream has %s, without the new images", t.View)}
	}
	return []verdict{ok("is there")}
}

func checkExpiry(t *Table) []verdict {
	switch {
	case t.Expiry == nil:
		return nil
	case *t.Expiry == "":
		return []verdict{warn("rows do not expire")}
	case *t.Expiry != "expires_at":
		return []verdict{warn("rows expire by %s, which they do not have", *t.Expiry)}
	}
	return []verdict{ok("rows expire")}
}

func queueSubjects(f *Facts) []judged {
	var list []judged
	for _, q := range f.Queues {
		v := ok("none")
		if q.Messages > 0 {
			v = warn("about %d messages", q.Messages)
		}
		list = append(list, judged{subject{name: "failures of " + q.Of, fill: []string{"{QUEUE}", q.URL}}, []verdict{v}})
	}
	return list
}
