// Package doctor looks for what breaks RADIUS behind a Network Load Balancer, in
// the target groups, the servers and the deployed stack, and says how to mend it.
//
// It reads facts first, as far as it may, and then judges them: every check is a
// pure function from facts to verdicts. What could not be read is told as not
// checked. It never takes that for a mistake, and never for health.
package doctor

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"radwitness/pkg/fleet"
)

// Level says how bad a finding is.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn" // may do harm, or could not be checked
	Fail Level = "fail" // does harm, or will
)

func (l Level) rank() int { return slices.Index([]Level{OK, Warn, Fail}, l) }

// Finding is what one check found on one subject.
type Finding struct {
	Check   string `json:"check"`           // its name, as in docs/doctor.md
	Group   string `json:"group,omitempty"` // of the fleet; empty for the stack as a whole
	Subject string `json:"subject"`
	Level   Level  `json:"level"`
	Says    string `json:"says"`             // what was found
	Mend    string `json:"mend,omitempty"`   // what to do about it
	Source  string `json:"source,omitempty"` // where it can be read why
}

// Report is all that was found, sorted by group and subject, the worst first
// within a subject.
type Report struct {
	At       time.Time `json:"at"`
	Stack    string    `json:"stack"`
	Level    Level     `json:"level"` // of the worst finding
	Findings []Finding `json:"findings"`
}

// Doctor examines a deployment. All API clients are needed.
type Doctor struct {
	Fleet       *fleet.Fleet
	FileVersion string // of the fleet file without overrides, which is what a deployment is told
	Stack       string // name of the CloudFormation stack
	ProbesTable string
	HealthTable string

	ELBv2       ELBv2
	Planner     Planner
	Lambda      Lambda
	Scheduler   Scheduler
	DynamoDB    DynamoDB
	SQS         SQS
	CloudWatch  CloudWatch
	Probes      Probes
	Health      Health
	Credentials Credentials
	Now         func() time.Time // nil means time.Now
}

// Examine reads and judges, within the time that the context leaves. group
// limits it to one group of the fleet, with the stack; empty takes all.
func (d *Doctor) Examine(ctx context.Context, group string) Report {
	r := &reader{Doctor: d}
	facts := r.read(ctx, group)
	facts.At = d.now().UTC() // after the newest row has been read
	report := Report{At: facts.At, Stack: d.Stack, Level: OK, Findings: judge(facts)}
	for _, f := range report.Findings {
		if f.Level.rank() > report.Level.rank() {
			report.Level = f.Level
		}
	}
	return report
}

func (d *Doctor) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}

// judge makes all checks.
func judge(f *Facts) []Finding {
	var findings []Finding
	for _, section := range Sections() {
		for _, c := range section.Checks {
			for _, s := range c.subjects(f) {
				for _, v := range s.verdicts {
					findings = append(findings, c.finding(s.subject, v))
				}
			}
		}
	}
	order := map[string]int{"": len(f.Fleet.Groups)} // the stack comes after the groups
	for i, g := range f.Fleet.Groups {
		order[g.Name] = i
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.Group], order[b.Group]), cmp.Compare(a.Subject, b.Subject), cmp.Compare(b.Level.rank(), a.Level.rank()))
	})
	return findings
}

// finding is a verdict with what its reader needs.
func (c Check) finding(s subject, v verdict) Finding {
	f := Finding{Check: c.Name, Group: s.group, Subject: s.name, Level: v.level, Says: v.says}
	if v.level != OK {
		f.Mend, f.Source = plain(strings.NewReplacer(s.fill...).Replace(cmp.Or(v.mend, c.Mend))), c.Source
	}
	return f
}

// blank is a word in an advice that stands for a name, such as {ARN}.
var blank = regexp.MustCompile(`\{([A-Z_]+)\}`)

// plain writes the words that nothing is filled in for as a reader expects them.
func plain(advice string) string { return blank.ReplaceAllString(advice, "$1") }
