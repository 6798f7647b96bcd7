package lab

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"radwitness/pkg/fleet"
	"radwitness/pkg/probe"
)

// File is a fleet file of the user's own.
type File struct {
	Path  string
	Fleet *fleet.Fleet
	text  []byte
}

// LoadFleet reads a fleet of the user's own as fleet.Load does. It refuses one
// that cannot be probed from here: with a method that the prober cannot make, or
// with secrets that only AWS has.
func LoadFleet(path string, environ []string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the fleet file: %w", err)
	}
	f, err := fleet.Parse(path, text, environ)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, g := range f.Groups {
		for _, s := range g.Servers {
			used[s.Credential] = true
			for _, c := range s.Checks {
				if !slices.Contains(probe.Supported(), c.Method) {
					return nil, fmt.Errorf("%s: server %s of group %s: method %s cannot be probed", path, s.Name, g.Name, c.Method)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if f.Credentials[name].Env == "" {
			prefix := strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
			return nil, fmt.Errorf("%s: credentials %s are kept in AWS, which a local run never calls: in a copy of the file, "+
				"write {env: %s} in their place and set %[3]s_SHARED_SECRET, %[3]s_USERNAME and %[3]s_PASSWORD", path, name, prefix)
		}
	}
	return &File{Path: path, Fleet: f, text: text}, nil
}

// adopt makes a fleet file of the user's own fit for the cloud: each target group
// is created here, and takes the place of the configured one. It returns the text
// with the new ARNs.
func (c *cloud) adopt(ctx context.Context, f *File) ([]byte, error) {
	created := map[string]string{} // by the configured ARN
	for _, g := range f.Fleet.Groups {
		for _, tg := range g.TargetGroups {
			// A target group's own port is not in the file. That of the servers is as
			// good a guess as any, and nothing is ever sent to it.
			var err error
			if created[tg.ARN], err = c.createTargetGroup(ctx, cmp.Or(tg.Port, g.Servers[0].Checks[0].Port)); err != nil {
				return nil, err
			}
		}
	}
	// The longest first: one ARN may be the beginning of another.
	var pairs []string
	for _, arn := range slices.SortedFunc(maps.Keys(created), func(a, b string) int { return cmp.Compare(len(b), len(a)) }) {
		pairs = append(pairs, arn, created[arn])
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(f.text))), nil
}
