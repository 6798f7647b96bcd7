package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	"radwitness/pkg/fleet"
)

// BenchmarkParse is the largest part of a function's start with a large fleet:
// 1,000 servers in 50 groups.
func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	text.WriteString("credentials:\n  lab: {env: LAB}\ngroups:\n")
	for g := range 50 {
		fmt.Fprintf(&text, "  - name: group-%d\n    credentials: lab\n    target_groups:\n      - arn: arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/vpn-%d/0123456789abcdef\n    servers:\n", g, g)
		for s := range 20 {
			fmt.Fprintf(&text, "      - {name: server-%d, address: 10.0.%d.%d}\n", s, g, s+1)
		}
	}
	data := []byte(text.String())
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := fleet.Parse("fleet.yaml", data, nil); err != nil {
			b.Fatal(err)
		}
	}
}
