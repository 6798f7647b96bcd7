package doctor

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

const pageStream = "https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html"

// maxLag is the age of records past which the reconciler moves states and
// touches no target group.
const maxLag = time.Minute

func streamChecks() []Check {
	return []Check{
		{
			Name:     "stream-mapping",
			Looks:    "The stream of table probes leads to the reconciler: one mapping, enabled, of the stream that the table has now.",
			Why:      "The reconciler learns of probes by it alone.",
			Mend:     "make deploy makes a missing one; enable one with: aws lambda update-event-source-mapping --uuid {UUID} --enabled",
			Source:   pageStream,
			subjects: one("stream", checkMapping),
		},
		{
			Name:     "stream-order",
			Looks:    "The mapping works on one batch of a shard at a time, and passes inserted and modified rows.",
			Why:      "With a parallelization factor above 1 two reconcilers may work on one group; a narrower filter drops evidence for good.",
			Mend:     "aws lambda update-event-source-mapping --uuid {UUID} --parallelization-factor 1 --filter-criteria with the pattern " + streamFilter,
			Source:   pageStream,
			subjects: one("stream", checkOrder),
		},
		{
			Name:     "stream-result",
			Looks:    "The mapping could invoke the reconciler the last time.",
			Why:      "Records wait in the stream, and are given up after 5 minutes.",
			Mend:     "Look at the reconciler's log: aws logs tail /aws/lambda/{STACK}-reconciler --since 10m",
			Source:   pageFailures,
			subjects: one("stream", checkResult),
		},
		{
			Name:     "stream-lag",
			Looks:    "The reconciler has been less than a minute behind the probes in the last 5 minutes.",
			Why:      "Past that it moves states, and touches no target group.",
			Mend:     "Look for throttling and errors: aws logs tail /aws/lambda/{STACK}-reconciler --since 10m",
			Source:   pageStream,
			subjects: one("stream", checkLag),
		},
	}
}

// streamFilter is the pattern that the stack gives the mapping.
const streamFilter = `{"eventName":["INSERT","MODIFY"]}`

// mappingEnabled is the state of a mapping that works.
const mappingEnabled = "Enabled"

// mapping is the only mapping of the reconciler; nil if there is none, or if it
// is not known.
func (f *Facts) mapping() *Mapping {
	if len(f.Mappings) != 1 {
		return nil
	}
	return &f.Mappings[0]
}

func checkMapping(f *Facts) []verdict {
	if f.Mappings == nil {
		return nil
	}
	stream := ""
	if len(f.Tables) > 0 {
		stream = f.Tables[0].StreamARN
	}
	switch m := f.mapping(); {
	case len(f.Mappings) == 0:
		return []verdict{fail("no event source mapping invokes the reconciler")}
	case m == nil:
		return []verdict{warn("%d event source mappings invoke the reconciler, and one is enough", len(f.Mappings)).
			by("aws lambda list-event-source-mappings --function-name {STACK}-reconciler, and delete the one that is not of table probes")}
	case stream != "" && aws.ToString(m.EventSourceArn) != stream:
		return []verdict{fail("it reads %s, and the table's stream is %s", aws.ToString(m.EventSourceArn), stream).by("make deploy")}
	case aws.ToString(m.State) == mappingEnabled:
		return []verdict{ok("is enabled")}
	case slices.Contains([]string{"Creating", "Enabling", "Updating"}, aws.ToString(m.State)):
		return []verdict{warn("is %s: look again in a minute", strings.ToLower(aws.ToString(m.State)))}
	default:
		return []verdict{fail("is %s", because(strings.ToLower(aws.ToString(m.State)), aws.ToString(m.StateTransitionReason))).
			by("aws lambda update-event-source-mapping --uuid " + aws.ToString(m.UUID) + " --enabled")}
	}
}

func checkOrder(f *Facts) []verdict {
	m := f.mapping()
	if m == nil {
		return nil
	}
	var list []verdict
	mend := "aws lambda update-event-source-mapping --uuid " + aws.ToString(m.UUID)
	if n := aws.ToInt32(m.ParallelizationFactor); n > 1 {
		list = append(list, fail("the parallelization factor is %d", n).by(mend+" --parallelization-factor 1"))
	}
	if m.FilterCriteria != nil {
		for _, filter := range m.FilterCriteria.Filters {
			if !sameJSON(aws.ToString(filter.Pattern), streamFilter) {
				list = append(list, fail("its filter is %s", aws.ToString(filter.Pattern)).
					by(mend+` --filter-criteria '{"Filters":[{"Pattern":"{\"eventName\":[\"INSERT\",\"MODIFY\"]}"}]}'`))
			}
		}
	}
	if list == nil {
		list = append(list, ok("one batch of a shard at a time, nothing is dropped"))
	}
	return list
}

// sameJSON reports whether two texts are the same value; not if one is none.
func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

func checkResult(f *Facts) []verdict {
	m := f.mapping()
	if m == nil {
		return nil
	}
	// "OK", "No records processed", or "PROBLEM: ..." with what went wrong.
	if result := aws.ToString(m.LastProcessingResult); strings.HasPrefix(result, "PROBLEM") {
		return []verdict{fail("%s", result)}
	}
	return []verdict{ok("it could")}
}

func checkLag(f *Facts) []verdict {
	switch {
	case f.IteratorAge == nil:
		return nil
	case *f.IteratorAge > maxLag:
		return []verdict{fail("up to %v behind in the last %v", f.IteratorAge.Round(time.Second), metricsAge)}
	}
	return []verdict{ok("at most %v behind in the last %v", f.IteratorAge.Round(time.Second), metricsAge)}
}

func gapChecks() []Check {
	return []Check{{
		Name:  "not-checked",
		Looks: "Everything could be read.",
		Why:   "What could not be read is not checked, and may be wrong.",
		Mend:  "Allow {ACTION} (policy below), or look at it yourself",
		subjects: func(f *Facts) []judged {
			var list []judged
			for _, g := range f.Gaps {
				v := warn("to read %s needs %s", g.What, g.Action)
				if !g.Denied {
					v = warn("%s could not be read: %s", g.What, reason(g.Err)).by("Try again, or look at it yourself")
				}
				list = append(list, judged{subject{group: g.Group, name: g.Subject, fill: []string{"{ACTION}", g.Action}}, []verdict{v}})
			}
			return list
		},
	}}
}
