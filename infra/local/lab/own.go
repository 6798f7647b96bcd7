package lab

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"radwitness/pkg/fleet"
	"radwitness/pkg/probe"
)

// LoadFleet reads a fleet of the user's own as fleet.Load does. It refuses one
// that cannot be probed from here: with a method that the prober cannot make, or
// with secrets that only AWS has.
func LoadFleet(path string, environ []string) (*fleet.Fleet, error) {
	f, err := fleet.Load(path, environ)
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
	return f, nil
}
