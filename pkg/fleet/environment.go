package fleet

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// variablePrefix begins the name of every environment variable that belongs to
// radwitness.
const variablePrefix = "RADWITNESS_"

// otherVariables belong to the functions themselves and override nothing. The
// comment above each is its description in docs/configuration.md.
func otherVariables() []string {
	return []string{
		// Path of the fleet file. Without it the functions read fleet.yaml of their bundle.
		"RADWITNESS_FLEET",
		// Version of the fleet file that the functions run with. The stack sets it, for the commands to compare.
		"RADWITNESS_FLEET_VERSION",
		// Name of the stack, for the commands, where the fleet file has no section deploy.
		"RADWITNESS_STACK",
		// Name of table probes.
		"RADWITNESS_PROBES_TABLE",
		// Name of table health. Only the reconciler has it.
		"RADWITNESS_HEALTH_TABLE",
		// Name of the EventBridge bus that the reconciler tells of changes. Without it nobody is told.
		"RADWITNESS_EVENT_BUS",
		// URL of the SQS queue for stream records that cannot be read. Without it they are only logged.
		"RADWITNESS_FAILURE_QUEUE",
		// Least level of the functions' log lines: info, warn or error. Without it info.
		"RADWITNESS_LOG_LEVEL",
	}
}

// Overrides returns the assignments of an environment that override keys of the
// file.
func Overrides(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(assignment string) bool {
		name, _, _ := strings.Cut(assignment, "=")
		return !strings.HasPrefix(name, variablePrefix) || slices.Contains(otherVariables(), name)
	})
}

// readEnvironment decodes and checks the overrides in an environment. It also
// returns their assignments, NAME=VALUE, sorted.
func (r *report) readEnvironment(environ []string) (overrideForm, []string) {
	values := map[string]string{}
	for _, assignment := range Overrides(environ) {
		name, value, _ := strings.Cut(assignment, "=")
		values[name] = value
	}
	var form overrideForm
	known := map[string]reflect.Value{}
	addVariables(known, "", reflect.ValueOf(&form).Elem())
	names := slices.Sorted(maps.Keys(known))

	var inForce []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := place{variable: name}
		pointer, ok := known[name]
		if !ok {
			r.fail(at, "unknown variable%s; known are %s", suggest(name, names), strings.Join(names, ", "))
			continue
		}
		pointer.Set(reflect.New(pointer.Type().Elem()))
		if err := decodeText(values[name], pointer.Elem()); err != nil {
			r.fail(at, "%v", err)
		}
		inForce = append(inForce, name+"="+values[name])
	}
	r.checkProbe(&form.Probe, inVariables("probe"))
	r.checkHealth(&form.Health, inVariables("health"))
	r.checkGroupSettings(form.Mode, form.ReconcileInterval, inVariables(""))
	return form, inForce
}

// addVariables adds the scalars of a form by the names of their variables.
// Lists and maps have no variable.
func addVariables(known map[string]reflect.Value, key string, form reflect.Value) {
	for _, f := range fields(form.Type()) {
		value := form.FieldByIndex(f.index)
		switch path := join(key, f.name); {
		case value.Kind() == reflect.Struct:
			addVariables(known, path, value)
		case value.Type().Elem().Kind() != reflect.Slice && value.Type().Elem().Kind() != reflect.Map:
			known[variable(path).variable] = value
		}
	}
}

// variable returns the place of a key in the environment.
func variable(key string) place {
	return place{variable: variablePrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))}
}
