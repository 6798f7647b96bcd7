package fleet

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChecks(t *testing.T) {
	tests := []struct {
		name string
		file string
		env  []string
		want string // ROW METHOD:PORT of each check of server a
	}{
		{"none listed", edit("name: a", "name: a, method: chap"), nil, "a chap:1812"},
		{"one", edit("name: a", "name: a, checks: [chap]"), nil, "a chap:1812"},
		{"two", edit("name: a", "name: a, checks: [pap, accounting]"), nil, "a/pap pap:1812, a/accounting accounting:1813"},
		{"of the group", edit("name: g", "name: g\n    checks: [pap, chap]"), nil, "a/pap pap:1812, a/chap chap:1812"},
		{"the server's count", edit("name: g", "name: g\n    checks: [pap, chap]", "name: a", "name: a, checks: [mschapv2]"), nil, "a mschapv2:1812"},
		{"a port of the server is not accounting's", edit("name: a", "name: a, port: 7, checks: [pap, accounting]"), nil, "a/pap pap:7, a/accounting accounting:1813"},
		{"a port of a check", edit("name: a", "name: a, port: 7, checks: [{method: pap, port: 8}, {method: accounting, port: 9}]"), nil, "a/pap pap:8, a/accounting accounting:9"},
		{"variables", edit("name: a", "name: a, checks: [pap, accounting]"), []string{"RADWITNESS_PROBE_METHOD=chap", "RADWITNESS_PROBE_PORT=7"}, "a/pap pap:7, a/accounting accounting:1813"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := mustParse(t, tt.file, tt.env...).Groups[0]
			var got []string
			for _, c := range g.Servers[0].Checks {
				got = append(got, fmt.Sprintf("%s %s:%d", c.Row, c.Method, c.Port))
				if s, p, ok := g.Check(c.Row); !ok || s.Name != "a" || p.Method != c.Method {
					t.Errorf("check of row %s is %s of %s, %v", c.Row, p.Method, s.Name, ok)
				}
			}
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("got %s, want %s", text, tt.want)
			}
			if _, _, ok := g.Check("a/none"); ok {
				t.Error("there is a check of an unknown row")
			}
		})
	}
}

func TestChecksInherit(t *testing.T) {
	f := mustParse(t, edit("name: a", "name: a, attempts: 2, healthy_on: [reject], failure_on: [timeout], checks: [pap, {method: status-server, attempts: 4, interval: 30s}]"))
	pap, status := f.Groups[0].Servers[0].Checks[0], f.Groups[0].Servers[0].Checks[1]
	if pap.Attempts != 2 || status.Attempts != 4 || pap.Interval == status.Interval || status.Criteria.HealthyOn[0] != "reject" {
		t.Errorf("got %+v and %+v", pap, status)
	}
}

func TestChecksRefused(t *testing.T) {
	for checks, want := range map[string]string{
		"[]":                           "groups[0].servers[0].checks: needs at least one check",
		"[{port: 1}]":                  "groups[0].servers[0].checks[0].method: is missing",
		"[pap, pap]":                   "groups[0].servers[0].checks[1]: pap is checked twice",
		"[smoke]":                      `groups[0].servers[0].checks[0].method: "smoke" is not one of pap, chap`,
		"[{method: pap, attempts: 0}]": "groups[0].servers[0].checks[0].attempts: must be 1 to 10, not 0",
		"[{method: pap, interval: 1s}]": "groups[0].servers[0].checks[0].interval: interval (1s) is shorter than the probe can take: " +
			"3 attempts of 1s are 3s",
		"[{method: pap, name: x}]": "groups[0].servers[0].checks[0].name: unknown key",
		"pap":                      `groups[0].servers[0].checks: must be a list, not "pap"`,
	} {
		_, err := Parse("f.yaml", []byte(edit("name: a", "name: a, checks: "+checks)), nil)
		if err == nil || !strings.HasPrefix(err.Error(), "f.yaml:8: "+want) {
			t.Errorf("%s: got %v, want %s", checks, err, want)
		}
	}
}

func TestAttributes(t *testing.T) {
	for value, want := range map[string]string{ // vendor/type:value
		"Service-Type: Login-User":                  "0/6:00000001",
		"Service-Type: login-user":                  "0/6:00000001",
		"Service-Type: 2":                           "0/6:00000002",
		`NAS-Port: "4294967295"`:                    "0/5:ffffffff",
		"Called-Station-Id: 00-11-22-33-44-55:ssid": "0/30:30302d31312d32322d33332d34342d35353a73736964",
		"NAS-IP-Address: 192.0.2.1":                 "0/4:c0000201",
		"NAS-IPv6-Address: 2001:db8::1":             "0/95:20010db8000000000000000000000001",
		"Class: 0x00ff":                             "0/25:00ff",
		"Class: text":                               "0/25:74657874",
		"Event-Timestamp: 1970-01-01T00:01:00Z":     "0/55:0000003c",
		"Cisco-AVPair: [a=b, c=d]":                  "9/1:613d62 9/1:633d64",
		"NAS-Port: 1, Class: 7":                     "0/25:37 0/5:00000001", // by name
	} {
		f := mustParse(t, edit("name: a", "name: a, attributes: {"+value+"}"))
		var got []string
		for _, a := range f.Groups[0].Servers[0].Checks[0].Attributes {
			got = append(got, fmt.Sprintf("%d/%d:%s", a.Vendor, a.Type, hex.EncodeToString(a.Value)))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: got %s, want %s", value, text, want)
		}
	}
}

func TestAttributesRefused(t *testing.T) {
	for value, want := range map[string]string{
		"Service-Typ: 1":                            `Service-Typ: "Service-Typ" is not an attribute of the dictionary (did you mean Service-Type?)`,
		"Service-Type: Nobody":                      "Service-Type: must be a whole number or one of Login-User, Framed-User,",
		"NAS-Port: -1":                              `NAS-Port: must be a whole number, not "-1"`,
		"NAS-Port: 4294967296":                      `NAS-Port: must be a whole number, not "4294967296"`,
		"NAS-IP-Address: 2001:db8::1":               `NAS-IP-Address: must be an IPv4 address, not "2001:db8::1"`,
		"NAS-IPv6-Address: 10.0.0.1":                `NAS-IPv6-Address: must be an IPv6 address, not "10.0.0.1"`,
		"Class: 0xabc":                              `Class: "0xabc" is not hex after 0x`,
		`Class: ""`:                                 "Class: must be 1 to 253 bytes long, not 0",
		"Cisco-AVPair: " + strings.Repeat("x", 248): "Cisco-AVPair: must be 1 to 247 bytes long, not 248",
		"Event-Timestamp: noon":                     `Event-Timestamp: must be a time like 2026-01-31T12:00:00Z, not "noon"`,
		"User-Password: hush":                       "User-Password: is set by the prober itself",
		"Proxy-State: x":                            "Proxy-State: is set by the prober itself", // F10
		"Class: []":                                 "Class: needs at least one value",
		"Class: {a: b}":                             "Class: must be text, a number, an address, or a list of them, not a mapping",
	} {
		_, err := Parse("f.yaml", []byte(edit("name: a", "name: a, attributes: {"+value+"}")), nil)
		if want = "f.yaml:8: groups[0].servers[0].attributes." + want; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", value, err, want)
		}
	}
}

func TestCAFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pem := string(readFile(t, "../../testdata/radius-ca.pem"))
	write("ca.pem", pem)
	write("empty.pem", "nothing\n")
	f, err := Parse(filepath.Join(dir, "f.yaml"), []byte(edit("name: a", "name: a, method: eap-ttls-pap, ca_file: ca.pem, require_valid_cert: true")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := f.Groups[0].Servers[0].Checks[0]; p.CABundle != pem || !p.RequireValidCert || fmt.Sprint(f.Files) != "[ca.pem]" {
		t.Errorf("got %+v, files %v", p, f.Files)
	}
	for keys, want := range map[string]string{
		"ca_file: none.pem":                               "ca_file: cannot be read: open ",
		"ca_file: empty.pem":                              `ca_file: "empty.pem" holds no certificate in PEM`,
		"ca_file: ../ca.pem":                              `ca_file: "../ca.pem" must be a relative path`,
		"ca_file: /etc/ca.pem":                            `ca_file: "/etc/ca.pem" must be a relative path`,
		"method: peap-mschapv2, require_valid_cert: true": "require_valid_cert: require_valid_cert needs a ca_file",
	} {
		file := filepath.Join(dir, "f.yaml")
		_, err := Parse(file, []byte(edit("name: a", "name: a, "+keys)), nil)
		if want = file + ":8: groups[0].servers[0]." + want; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", keys, err, want)
		}
	}
}
