package statuspage

import (
	"encoding/json"
	"fmt"
	"net/http"

	"radwitness/pkg/operator"
)

// largestOrder is more than any order has, in bytes.
const largestOrder = 4096

// labState is how the switches stand.
type labState struct {
	Faults  []string          `json:"faults"`  // empty if the servers cannot be broken, only their targets removed
	Current map[string]string `json:"current"` // fault by server
}

// labState reads the switches of the servers of a report; nil without a lab.
func (p *page) labState(r *operator.Report) *labState {
	if p.lab == nil || r == nil {
		return nil
	}
	s := &labState{Faults: p.lab.Faults(), Current: map[string]string{}}
	if len(s.Faults) == 0 {
		return s
	}
	for _, g := range r.Groups {
		for _, server := range g.Servers {
			s.Current[server.Name] = p.lab.Fault(server.Name)
		}
	}
	return s
}

// order is what a person wants done to a server.
type order struct {
	Group  string `json:"group"`
	Server string `json:"server"`
	Fault  string `json:"fault"`
}

func readOrder(w http.ResponseWriter, r *http.Request) (order, error) {
	var o order
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, largestOrder))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&o); err != nil {
		return o, fmt.Errorf("reading the order: %w", err)
	}
	return o, nil
}

// setFault switches a server.
func (p *page) setFault(w http.ResponseWriter, r *http.Request) {
	o, err := readOrder(w, r)
	if err == nil {
		err = p.lab.SetFault(o.Server, o.Fault)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeJSON(w, o)
}

// removeTarget takes a server out of its target groups.
func (p *page) removeTarget(w http.ResponseWriter, r *http.Request) {
	o, err := readOrder(w, r)
	if err == nil {
		err = p.lab.RemoveTarget(r.Context(), o.Group, o.Server)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeJSON(w, o)
}
