package screen

import (
	"fmt"
	"strings"

	"radwitness/pkg/doctor"
)

// Doctor draws what a doctor found, subject by subject. What is well is only
// counted, unless all is asked for.
func (s Screen) Doctor(r doctor.Report, all bool) string {
	var b strings.Builder
	title := ""
	for i := 0; i < len(r.Findings); {
		f := r.Findings[i]
		end := i
		for end < len(r.Findings) && r.Findings[end].Group == f.Group && r.Findings[end].Subject == f.Subject {
			end++
		}
		of := "stack " + r.Stack
		if f.Group != "" {
			of = "group " + f.Group
		}
		if of != title {
			if i > 0 {
				b.WriteString("\n")
			}
			title = of
			b.WriteString(s.bold(title) + "\n")
		}
		if f.Subject != title {
			fmt.Fprintf(&b, "  %s\n", f.Subject)
		}
		s.findings(&b, r.Findings[i:end], all)
		i = end
	}
	counts := map[doctor.Level]int{}
	for _, f := range r.Findings {
		counts[f.Level]++
	}
	fmt.Fprintf(&b, "\n%s: %d ok, %d warn, %d fail\n", s.level(r.Level, string(r.Level)), counts[doctor.OK], counts[doctor.Warn], counts[doctor.Fail])
	return b.String()
}

// findings draws what was found on one subject.
func (s Screen) findings(b *strings.Builder, findings []doctor.Finding, all bool) {
	well := 0
	for _, f := range findings {
		if f.Level == doctor.OK && !all {
			well++
			continue
		}
		fmt.Fprintf(b, "    %s  %-22s  %s\n", s.level(f.Level, fmt.Sprintf("%-4s", f.Level)), f.Check, f.Says)
		if f.Mend != "" {
			fmt.Fprintf(b, "          %s%s\n", s.faint("mend  "), f.Mend)
		}
		if f.Source != "" {
			fmt.Fprintf(b, "          %s\n", s.faint("see   "+f.Source))
		}
	}
	switch {
	case well == 1:
		fmt.Fprintf(b, "    %s  1 check\n", s.level(doctor.OK, "ok  "))
	case well > 1:
		fmt.Fprintf(b, "    %s  %d checks\n", s.level(doctor.OK, "ok  "), well)
	}
}

// level colours a text as fits a level.
func (s Screen) level(l doctor.Level, text string) string {
	switch l {
	case doctor.Fail:
		return s.bad(text)
	case doctor.Warn:
		return s.doubt(text)
	}
	return s.good(text)
}
