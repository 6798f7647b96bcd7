package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/sivchari/kumo"

	"radwitness/pkg/health"
	"radwitness/pkg/nas"
	"radwitness/pkg/nas/live"
	"radwitness/pkg/nas/replay"
	"radwitness/pkg/probe/freeradiustest"
	"radwitness/pkg/probe/radiustest"
	"radwitness/pkg/store"
	"radwitness/pkg/store/storetest"
)

// test runs fleet-test with -json, and checks what it prints.
func test(t *testing.T, wantCode int, environ []string, args ...string) nas.Report {
	t.Helper()
	code, stdout, stderr := run(t, environ, append([]string{"fleet-test", "-json"}, args...)...)
	if code != wantCode {
		t.Errorf("%v: exit code %d, want %d; stderr %s", args, code, wantCode, stderr)
	}
	validate(t, stdout)
	var r nas.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// three starts servers that know the user, with the given faults.
func three(t *testing.T, faults ...radiustest.Fault) string {
	t.Helper()
	var servers []netip.AddrPort
	for i, f := range faults {
		addr := fmt.Sprintf("127.0.0.%d:0", i+1) // the fleet has no two servers with one address
		s, err := radiustest.Listen(addr, radiustest.Config{Secret: secret, Users: map[string]string{"probe": password}, Fault: f})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		servers = append(servers, s.Addr())
	}
	return writeFleet(t, servers...)
}

func TestFleetTest(t *testing.T) {
	const none, drop, reject, refuse = radiustest.None, radiustest.DropAll, radiustest.RejectAll, radiustest.Refuse
	tests := []struct {
		name  string
		fleet string
		args  []string
		code  int
		check func(v nas.View) bool
	}{
		{"all well", three(t, none, none, none), []string{"-strategy", "round-robin"}, exitHealthy, func(v nas.View) bool {
			return v.Servers[0].Accepts == 4 && v.Servers[1].Accepts == 3 && v.Servers[2].Accepts == 3 && v.LetIn.Deny == 10 && v.Name == live.Name
		}},
		{"one drops", three(t, drop, none, none), []string{"-timeout", "100ms"}, exitHealthy, func(v nas.View) bool {
			return v.Servers[0].Timeouts == 10 && v.Servers[1].Accepts == 10 && v.Delayed == 10 && slices.Equal(v.First, []int{1, 2})
		}},
		{"all drop", three(t, drop, drop, drop), []string{"-timeout", "30ms"}, exitCritical, func(v nas.View) bool {
			return slices.Equal(v.First, []int{1, 2, 3, 1, 2, 3, 1, 2, 3}) && v.Wait.MaxMS == 270 && v.Wait.WorstMS == 270 && v.LetIn == nas.LetIn{Allow: 10}
		}},
		{"another order", three(t, refuse, refuse, none), []string{"-servers", "radius-3,radius-1", "-retries", "0"}, exitHealthy, func(v nas.View) bool {
			return len(v.Servers) == 2 && v.Servers[0].Name == "radius-3" && v.Servers[0].Accepts == 10
		}},
		{"rejecting", three(t, reject, none, none), []string{"-max-rejects", "0"}, exitCritical, func(v nas.View) bool {
			return v.Servers[0].Rejects == 10 && v.LetIn == nas.LetIn{}
		}},
		{"IOS", three(t, none, drop, none), []string{"-strategy", "least-outstanding", "-batch", "1", "-timeout", "100ms", "-retries", "1", "-trace", "-deadtime", "0"},
			exitHealthy, func(v nas.View) bool { return v.Servers[1].Timeouts > 0 && len(v.Trace) > 10 && v.LetIn.Deny == 10 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := test(t, tt.code, environ(secret, password), append([]string{"-config", tt.fleet, "-n", "10", "-rate", "100"}, tt.args...)...)
			if len(r.Views) != 1 || !tt.check(r.Views[0]) || r.Recorded || r.Group != "vpn" || !r.From.Before(r.To) {
				t.Errorf("%+v", r)
			}
		})
	}
	code, stdout, stderr := run(t, environ(secret, password), "fleet-test", "-config", tests[0].fleet, "-n", "3", "-rate", "100")
	if code != exitHealthy || !strings.Contains(stdout, "let in       3 of 3 under failover policy deny, 3 under allow") || !strings.Contains(stderr, "logins: 3, 100 a second") {
		t.Errorf("exit code %d, stdout\n%s\nstderr %s", code, stdout, stderr)
	}
}

func TestRejectsDoNotLockTheAccount(t *testing.T) {
	r := test(t, exitCritical, environ(secret, "wrong"), "-config", three(t, radiustest.None), "-rate", "200", "-outstanding", "1")
	if r.Views[0].Logins != 10 || len(r.Notes) == 0 || !strings.Contains(r.Notes[0], "stopped after 10 rejects in a row") {
		t.Errorf("%d logins, notes %q", r.Views[0].Logins, r.Notes)
	}
}

// The promise of the command, by its own word: three FreeRADIUS, one of which drops.
func TestFleetTestAgainstFreeRADIUS(t *testing.T) {
	var servers []netip.AddrPort
	for i, s := range []string{"another-secret", secret, secret} {
		servers = append(servers, freeradiustest.Start(t, freeradiustest.Config{
			Secret: s, Users: map[string]string{"probe": password}, Address: netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)}),
		}).Addr())
	}
	path := writeFleet(t, servers...)
	r := test(t, exitHealthy, environ(secret, password), "-config", path, "-n", "10", "-rate", "50", "-timeout", "300ms")
	if v := r.Views[0]; v.Delayed != 10 || v.Servers[0].Timeouts != 10 || v.Servers[1].Accepts != 10 || v.Wait.MaxMS > 3*3*300 {
		t.Errorf("%+v", v)
	}
}

func TestBadFleetTests(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	path := three(t, radiustest.None, radiustest.None)
	for want, args := range map[string][]string{
		`strategy "random" is not one of`:                                     {"-strategy", "random"},
		`-group "lan" is not one of the fleet's groups: vpn`:                  {"-group", "lan"},
		`-servers: "x" is not one of the servers of group vpn: radius-1, rad`: {"-servers", "x"},
		`-servers: radius-1 is there twice`:                                   {"-servers", "radius-1,radius-1"},
		`the timeout must be positive`:                                        {"-timeout", "0s"},
		`-n must be at most 100000`:                                           {"-n", "100001"},
		`-n must not be negative`:                                             {"-n", "-1"},
		`-rate must be at most 500`:                                           {"-rate", "501"},
		`-rate must not be negative`:                                          {"-rate", "-1"},
		`-outstanding must be from 1 to 256 with 2 servers`:                   {"-outstanding", "257"},
		`-since needs -record`:                                                {"-since", "1h"},
		`-max-rejects is not for -record`:                                     {"-record", "-max-rejects", "1"},
		`-since excludes -from and -to`:                                       {"-record", "-since", "1h", "-to", "2026-01-31T02:00:00Z"},
		`-since must not be negative`:                                         {"-record", "-since", "-1h"},
		`-from must be before -to`:                                            {"-record", "-from", "2026-01-31T02:00:00Z", "-to", "2026-01-31T02:00:00Z"},
		`-to is in the future`:                                                {"-record", "-to", "2999-01-31T02:00:00Z"},
		`it is not known which tables to read`:                                {"-record"},
		`"extra" is no argument of radwitness-prober fleet-test`:              {"extra"},
		`flag provided but not defined: -retry`:                               {"-retry", "1"},
		`invalid value "soon" for flag -timeout`:                              {"-timeout", "soon"},
	} {
		code, stdout, stderr := run(t, environ(secret, password), append([]string{"fleet-test", "-config", path}, args...)...)
		if code != exitUnknown || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q, want %q", args, code, stdout, stderr, want)
		}
	}
	code, _, stderr := run(t, nil, "fleet-test", "-config", path)
	if code != exitUnknown || !strings.Contains(stderr, "LAB_SHARED_SECRET is missing") {
		t.Errorf("without a secret: exit code %d, stderr %q", code, stderr)
	}
}

// recorded is an account whose table health knows a night: radius-1 silent from
// 1 min 50 s to 11 minutes, and out of the target group in between. It returns the
// names of both tables.
func recorded(t *testing.T, night time.Time) (probesTable, healthTable string) {
	t.Helper()
	server := kumo.NewServer()
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
	} {
		t.Setenv(name, value)
	}
	db := dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	probesTable, healthTable = rand.Text(), rand.Text() // kumo's servers share their state within a process
	if _, err := storetest.CreateTables(t.Context(), db, probesTable, healthTable); err != nil {
		t.Fatal(err)
	}
	tables := &store.Health{DynamoDB: db, Table: healthTable}
	save := func(after time.Duration, from, to health.Status, rule health.Rule, o health.Outcome) {
		t.Helper()
		err := tables.SaveState(t.Context(), "vpn", "radius-1",
			health.State{Status: to, Since: night.Add(after), HoldDown: 2 * time.Minute},
			store.Transition{Server: "radius-1", From: string(from), To: string(to), At: night.Add(after), Rule: string(rule), Outcome: o})
		if err != nil {
			t.Fatal(err)
		}
	}
	move := func(after time.Duration, in, out []store.Move) {
		t.Helper()
		err := tables.SaveChange(t.Context(), "vpn", store.Change{
			At: night.Add(after), TargetGroup: "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/vpn/0123456789abcdef",
			Registered: in, Deregistered: out,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	save(2*time.Minute, health.Up, health.Down, health.RuleThreshold, health.Timeout)
	move(2*time.Minute+2*time.Second, nil, []store.Move{{Target: "127.0.0.1:1812", Server: "radius-1"}})
	save(11*time.Minute, health.Down, health.HoldDown, health.RuleRecovered, health.Accept)
	save(13*time.Minute, health.HoldDown, health.Up, health.RuleProven, health.Accept)
	move(13*time.Minute, []store.Move{{Target: "127.0.0.1:1812", Server: "radius-1"}}, nil)
	return probesTable, healthTable
}

func TestLastNight(t *testing.T) {
	night := time.Date(2026, 1, 31, 2, 0, 0, 0, time.UTC)
	probesTable, healthTable := recorded(t, night)
	set := []string{"RADWITNESS_HEALTH_TABLE=" + healthTable, "RADWITNESS_PROBES_TABLE=" + probesTable}
	path := writeFleet(t, netip.MustParseAddrPort("127.0.0.1:1812"), netip.MustParseAddrPort("127.0.0.2:1812"), netip.MustParseAddrPort("127.0.0.3:1812"))
	r := test(t, exitCritical, set, "-config", path, "-record", "-from", "2026-01-31T02:00:00Z", "-to", "2026-01-31T03:00:00Z")
	if len(r.Views) != 2 || !r.Recorded || !r.From.Equal(night) || len(r.Outages) != 1 {
		t.Fatalf("%+v", r)
	}
	listed, behind := r.Views[0], r.Views[1]
	// A failed probe takes half a second, and the next comes a second later: the
	// first of three was at 1 min 57 s.
	if listed.Name != replay.Listed || listed.Logins != 3600 || listed.Delayed != 543 || listed.LetIn.Deny != 3600 || listed.Wait.MaxMS != 2000 {
		t.Errorf("listed: %+v", listed.Summary)
	}
	if behind.Logins != 3600 || behind.Unanswered == 0 || behind.Unanswered > 5 || behind.Wait.MaxMS != 6000 {
		t.Errorf("behind: %+v", behind.Summary)
	}
	if o := r.Outages[0]; !o.From.Equal(night.Add(117*time.Second)) || !o.To.Equal(night.Add(11*time.Minute)) {
		t.Errorf("outage %+v", o)
	}
	r = test(t, exitHealthy, set, "-config", path, "-record", "-from", "2026-01-31T02:30:00Z", "-to", "2026-01-31T03:00:00Z", "-n", "10")
	if r.Views[0].Logins != 10 || len(r.Outages) != 0 {
		t.Errorf("%+v", r)
	}
	r = test(t, exitHealthy, nil, "-config", path, "-record", "-since", "10m", "-health-table", healthTable, "-probes-table", probesTable, "-rate", "2")
	if r.Views[0].Logins != 1200 {
		t.Errorf("%d logins", r.Views[0].Logins)
	}
	code, _, stderr := run(t, set, "fleet-test", "-config", path, "-record", "-n", "1", "-rate", "1")
	if code != exitUnknown || !strings.Contains(stderr, "-n and -rate exclude each other") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	code, _, stderr = run(t, set, "fleet-test", "-config", path, "-record", "-since", "240h", "-rate", "100")
	if code != exitUnknown || !strings.Contains(stderr, "86400000 logins are more than 5000000") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	code, _, stderr = run(t, nil, "fleet-test", "-config", path, "-record", "-health-table", "nowhere", "-probes-table", probesTable)
	if code != exitUnknown || !strings.Contains(stderr, "there is no table "+probesTable+" or nowhere in us-east-1") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}
