// Package table stands in for DynamoDB where an emulator would be what limits a
// benchmark. It speaks its protocol, knows the update expressions of table probes
// and nothing else, and remembers when each row of each round came in.
package table

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// roundLayout is how table probes writes times.
const roundLayout = "2006-01-02T15:04:05.000Z"

// Round is what is known of the rows of one round.
type Round struct {
	Round    time.Time      `json:"round"`
	Rows     int            `json:"rows"`
	Last     time.Time      `json:"last"` // when the last row came in
	Outcomes map[string]int `json:"outcomes"`
}

// Table is the stand-in.
type Table struct {
	mu     sync.Mutex
	groups map[string]map[string]row
	rounds map[string]*Round
}

// row is the attributes of an item in DynamoDB's JSON.
type row map[string]json.RawMessage

// New is an empty table.
func New() *Table {
	return &Table{groups: map[string]map[string]row{}, rounds: map[string]*Round{}}
}

// Rounds lists the rounds so far, in their order.
func (t *Table) Rounds() []Round {
	t.mu.Lock()
	defer t.mu.Unlock()
	rounds := make([]Round, 0, len(t.rounds))
	for _, r := range t.rounds {
		rounds = append(rounds, *r)
	}
	slices.SortFunc(rounds, func(a, b Round) int { return a.Round.Compare(b.Round) })
	return rounds
}

// value is an attribute's value, as far as table probes has types.
type value struct {
	S string `json:"S"`
	N string `json:"N"`
}

// request is the part of a call that is looked at.
type request struct {
	Key              map[string]value `json:"Key"`
	UpdateExpression string           `json:"UpdateExpression"`
	Values           row              `json:"ExpressionAttributeValues"`
}

// ServeHTTP answers UpdateItem and Query.
func (t *Table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	var in request
	if err := json.Unmarshal(body, &in); err != nil {
		fail(w, "SerializationException", err.Error())
		return
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch operation {
	case "UpdateItem":
		attributes, err := t.update(in, time.Now())
		if err != nil {
			fail(w, "ConditionalCheckFailedException", err.Error())
			return
		}
		succeed(w, attributes)
	case "Query":
		succeed(w, t.query(in))
	default:
		fail(w, "UnknownOperationException", operation)
	}
}

// succeed answers as DynamoDB does, with a checksum that the SDK would miss.
func succeed(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10))
	_, _ = w.Write(body)
}

func fail(w http.ResponseWriter, code, message string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazonaws.dynamodb.v20120810#" + code, "message": message})
}

// update applies an update of table probes, whose placeholders have the names of
// the attributes, and returns the answer to it.
func (t *Table) update(in request, now time.Time) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	group, server := in.Key["group"].S, in.Key["server"].S
	if t.groups[group] == nil {
		t.groups[group] = map[string]row{}
	}
	old := t.groups[group][server]
	round := read(in.Values[":round"]).S
	if read(old["round"]).S >= round {
		return nil, fmt.Errorf("%s/%s already has round %s", group, server, round)
	}
	changed := row{}
	for name, v := range old {
		changed[name] = v
	}
	changed["group"], changed["server"] = quote("S", group), quote("S", server)
	for placeholder, v := range in.Values {
		name := strings.TrimPrefix(placeholder, ":")
		switch counter, isAdd := strings.CutPrefix(name, "add_"); {
		case isAdd:
			changed[counter] = quote("N", sum(read(changed[counter]).N, read(v).N))
		case changed[name] != nil && strings.Contains(in.UpdateExpression, "if_not_exists(#"+name+","):
		default:
			changed[name] = v
		}
	}
	if _, list, ok := strings.Cut(in.UpdateExpression, "REMOVE "); ok {
		for name := range strings.SplitSeq(list, ", ") {
			delete(changed, strings.TrimPrefix(name, "#"))
		}
	}
	t.groups[group][server] = changed
	t.note(round, read(in.Values[":outcome"]).S, now)
	return changed.encode([]byte(`{"Attributes":`), "}"), nil
}

// encode appends the row and an end. The attributes are JSON as they came, which
// encoding/json would read once more.
func (r row) encode(b []byte, end string) []byte {
	separator := "{"
	for name, v := range r {
		b = append(append(append(append(b, separator...), '"'), name...), `":`...)
		b = append(b, v...)
		separator = ","
	}
	return append(append(b, '}'), end...)
}

// note counts a row for its round.
func (t *Table) note(round, outcome string, now time.Time) {
	r := t.rounds[round]
	if r == nil {
		at, _ := time.Parse(roundLayout, round)
		r = &Round{Round: at, Outcomes: map[string]int{}}
		t.rounds[round] = r
	}
	r.Rows++
	r.Last = now
	r.Outcomes[outcome]++
}

func (t *Table) query(in request) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, separator := []byte(`{"Items":[`), ""
	for _, r := range t.groups[read(in.Values[":group"]).S] {
		b = r.encode(append(b, separator...), "")
		separator = ","
	}
	return append(b, "]}"...)
}

// read reads an attribute. The short way is for text without escapes, as all is
// that the prober writes of a server that answers.
func read(b json.RawMessage) (v value) {
	if text, ok := strings.CutPrefix(string(b), `{"S":"`); ok && !strings.Contains(text, `\`) {
		return value{S: strings.TrimSuffix(text, `"}`)}
	}
	_ = json.Unmarshal(b, &v) // what is missing is empty
	return v
}

func quote(kind, s string) json.RawMessage {
	b, _ := json.Marshal(map[string]string{kind: s})
	return b
}

// sum adds decimal numbers; an empty one is 0.
func sum(a, b string) string {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return strconv.FormatFloat(x+y, 'f', -1, 64)
}
