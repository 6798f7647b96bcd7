package fleet

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
)

// Error is one thing that is wrong with a configuration. Its place is either a
// key of the file or an environment variable.
type Error struct {
	File     string // name as given to Load or Parse; empty if Variable is set
	Line     int    // from 1; 0 if the error has no line
	Key      string // path of the key, like groups[0].servers[1].address; empty for the file as a whole
	Variable string // name of the environment variable at fault
	Message  string
}

// Error returns the place and the message, as file:line: key: message.
func (e *Error) Error() string {
	if e.Variable != "" {
		return e.Variable + ": " + e.Message
	}
	text := e.File
	if e.Line > 0 {
		text += fmt.Sprintf(":%d", e.Line)
	}
	if e.Key != "" {
		text += ": " + e.Key
	}
	return text + ": " + e.Message
}

// Errors is everything that is wrong with a configuration: first the
// environment, then the file in the order of its lines.
type Errors []*Error

// Error returns one error on each line.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the single errors.
func (es Errors) Unwrap() []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = e
	}
	return errs
}

// Load reads a configuration file and resolves it as Parse does. environ is in
// the form of os.Environ.
func Load(path string, environ []string) (*Fleet, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the fleet file: %w", err)
	}
	return Parse(path, data, environ)
}

// Parse resolves a configuration: the file's data, the defaults for what it
// leaves open, and the RADWITNESS_ variables of the environment, which win over
// both. name stands for the file in errors, and files that it names are read from
// beside it. If anything is wrong the error is of type Errors and holds
// everything that is.
func Parse(name string, data []byte, environ []string) (*Fleet, error) {
	r := newReport(name)
	var file fileForm
	// Editors on Windows put a byte order mark in front, which is not content.
	readable := r.decodeYAML(bytes.TrimPrefix(data, []byte("\ufeff")), &file)
	env, inForce := r.readEnvironment(environ)
	var fleet *Fleet
	if readable {
		fleet = r.resolve(&file, env)
	}
	if len(r.errs) > 0 {
		slices.SortStableFunc(r.errs, func(a, b *Error) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), strings.Compare(a.Variable, b.Variable))
		})
		return nil, r.errs
	}
	fleet.Version = version(data, inForce)
	return fleet, nil
}

// version identifies a configuration. Without overrides it is how the output of
// sha256sum for the file begins.
func version(data []byte, inForce []string) string {
	h := sha256.New()
	h.Write(data)
	for _, assignment := range inForce {
		h.Write([]byte("\x00" + assignment))
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// place is where a value was written: a key of the file or a variable. The
// zero place is the built-in default.
type place struct {
	key      string
	line     int
	variable string
}

// report collects what is wrong, and knows on which line each key is.
type report struct {
	file  string
	lines map[string]int // by path of the key
	bad   map[place]bool // places whose own value is wrong
	noted map[Error]bool
	forms map[reflect.Type][]field
	errs  Errors
}

func newReport(file string) *report {
	return &report{file: file, lines: map[string]int{"": 1}, bad: map[place]bool{}, noted: map[Error]bool{}, forms: map[reflect.Type][]field{}}
}

// at returns the place of a key in the file. A key that is not in the file has
// the line of what it would be in.
func (r *report) at(key string) place {
	for parent := key; ; parent = parent[:max(0, strings.LastIndexAny(parent, ".["))] {
		if line, ok := r.lines[parent]; ok {
			return place{key: key, line: line}
		}
	}
}

// fail notes that the value at a place is wrong. A place gets one such error,
// its first: what follows from a bad value says nothing new.
func (r *report) fail(at place, format string, args ...any) {
	if !r.bad[at] {
		r.bad[at] = true
		r.note(at, format, args...)
	}
}

// clash notes that settings do not fit together. The most specific one is to
// blame, the first if there are several. If one of them is wrong by itself, what
// it does to the others says nothing new.
func (r *report) clash(origins []origin, format string, args ...any) {
	if !slices.ContainsFunc(origins, func(o origin) bool { return r.bad[o.place] }) {
		narrowest := slices.MinFunc(origins, func(a, b origin) int { return a.rank - b.rank })
		r.note(narrowest.place, format, args...)
	}
}

// note adds an error, unless it is there already: a default that is wrong for
// every server is told once.
func (r *report) note(at place, format string, args ...any) {
	e := Error{Key: at.key, Line: at.line, Variable: at.variable, Message: fmt.Sprintf(format, args...)}
	if at.variable == "" {
		e.File = r.file
	}
	if !r.noted[e] {
		r.noted[e] = true
		r.errs = append(r.errs, &e)
	}
}
