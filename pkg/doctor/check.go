package doctor

import "fmt"

// Check is one thing that is looked at. Its texts are those of docs/doctor.md.
type Check struct {
	Name   string
	Looks  string // what has to be so
	Why    string // what happens otherwise
	Mend   string // what to do; {ARN}, {STACK} and the like stand for the subject's own
	Source string // page of the AWS documentation, or RFC

	subjects func(*Facts) []judged
}

// judged is a subject with what a check says of it.
type judged struct {
	subject
	verdicts []verdict
}

// subject is what a check looks at.
type subject struct {
	group, name string
	fill        []string // pairs of a word in Check.Mend and what it stands for
}

// verdict is what a check says.
type verdict struct {
	level Level
	says  string
	mend  string // in place of the check's own
}

func ok(format string, args ...any) verdict {
	return verdict{level: OK, says: fmt.Sprintf(format, args...)}
}
func warn(format string, args ...any) verdict {
	return verdict{level: Warn, says: fmt.Sprintf(format, args...)}
}
func fail(format string, args ...any) verdict {
	return verdict{level: Fail, says: fmt.Sprintf(format, args...)}
}

// because adds a reason, where there is one, to what is so.
func because(what, reason string) string {
	if reason == "" {
		return what
	}
	return what + ": " + reason
}

// by puts another advice in place of the check's own.
func (v verdict) by(mend string) verdict {
	v.mend = mend
	return v
}

// Section is checks of one kind.
type Section struct {
	Title  string
	Checks []Check
}

// Sections lists all checks, as docs/doctor.md does.
func Sections() []Section {
	return []Section{
		{"Target group and load balancer", targetGroupChecks()},
		{"The load balancer's own health check", healthChecks()},
		{"Zones", zoneChecks()},
		{"Targets", targetChecks()},
		{"Probes and passes", probeChecks()},
		{"Secrets", secretChecks()},
		{"Functions, schedule and tables", stackChecks()},
		{"Stream", streamChecks()},
		{"What could not be read", gapChecks()},
	}
}

// ofTargetGroups makes a check of all target groups that are there.
func ofTargetGroups(look func(*TargetGroup) []verdict) func(*Facts) []judged {
	return func(f *Facts) []judged {
		var list []judged
		for _, g := range f.Groups {
			for _, t := range g.TargetGroups {
				if t.Described != nil {
					list = append(list, judged{subjectOfTargetGroup(t), look(t)})
				}
			}
		}
		return list
	}
}

// ofGroups makes a check of all groups.
func ofGroups(look func(*Facts, *Group) []verdict) func(*Facts) []judged {
	return func(f *Facts) []judged {
		var list []judged
		for _, g := range f.Groups {
			s := subjectOfGroup(g)
			s.fill = append(s.fill, "{STACK}", f.Stack, "{TABLE}", f.ProbesTable)
			list = append(list, judged{s, look(f, g)})
		}
		return list
	}
}

// ofFunctions makes a check of both functions.
func ofFunctions(look func(*Facts, *Function) []verdict) func(*Facts) []judged {
	return func(f *Facts) []judged {
		var list []judged
		for _, fn := range []*Function{f.Prober, f.Reconciler} {
			if fn != nil {
				list = append(list, judged{subject{name: "function " + fn.Name, fill: []string{"{FUNCTION}", fn.Name}}, look(f, fn)})
			}
		}
		return list
	}
}

// ofBoth makes a check of both functions that says once what is so of both.
func ofBoth(look func(*Facts, *Function) []verdict) func(*Facts) []judged {
	return one("functions", func(f *Facts) []verdict {
		var list []verdict
		names := map[string][]string{} // of the functions, by what is said of them
		for _, fn := range []*Function{f.Prober, f.Reconciler} {
			if fn == nil || fn.Missing {
				continue
			}
			for _, v := range look(f, fn) {
				if names[v.says] == nil {
					list = append(list, v)
				}
				names[v.says] = append(names[v.says], fn.Name)
			}
		}
		for i, v := range list {
			if v.level != OK && len(names[v.says]) == 1 {
				list[i].says = names[v.says][0] + ": " + v.says
			}
		}
		return list
	})
}

// one makes a check of a single subject.
func one(name string, look func(*Facts) []verdict) func(*Facts) []judged {
	return func(f *Facts) []judged {
		return []judged{{subject{name: name, fill: []string{"{STACK}", f.Stack}}, look(f)}}
	}
}

func subjectOfGroup(g *Group) subject {
	return subject{group: g.Name, name: "group " + g.Name, fill: []string{"{GROUP}", g.Name}}
}

func subjectOfTargetGroup(t *TargetGroup) subject {
	return subject{group: t.Group.Name, name: "target group " + nameIn(t.Config.ARN), fill: []string{"{ARN}", t.Config.ARN}}
}
