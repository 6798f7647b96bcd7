package doctor

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const (
	authARN = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/auth/0123456789abcdef"
	acctARN = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/acct/0123456789abcdef"
	lbARN   = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/radius/0123456789abcdef"
)

// good are the facts of a deployment without a fault: three servers in three
// zones, of which the load balancer has three, probed with PAP and PEAP.
func good() *Facts {
	f := &Facts{
		At: now, Fleet: &fleet.Fleet{Deploy: &fleet.Deploy{VPCID: "vpc-1", Schedule: true, Shards: 1}},
		FileVersion: "abc", Stack: "radwitness", ProbesTable: "probes", HealthTable: "health",
	}
	g := &Group{
		Group: fleet.Group{
			Name: "vpn", Below: 1, ReconcileInterval: 30 * time.Second,
			TargetGroups: []fleet.TargetGroup{{ARN: authARN}, {ARN: acctARN}},
		},
		Rows:       map[string]store.ProbeRow{},
		Remembered: &store.GroupHealth{States: map[string]health.State{}, Group: store.GroupRow{Pass: store.PassDone}},
		Passes:     new(10.0),
	}
	for i := range 3 {
		name := fmt.Sprintf("ise-%d", i+1)
		g.Servers = append(g.Servers, fleet.Server{
			Name: name, Address: netip.AddrFrom4([4]byte{10, 0, byte(i), 10}), Credential: "corp",
			Checks: []fleet.Probe{
				{Row: name + "/pap", Method: fleet.PAP, Port: 1812, Attempts: 3, AttemptTimeout: time.Second, Interval: 10 * time.Second},
				{Row: name + "/peap-mschapv2", Method: fleet.PEAP, Port: 1812, Attempts: 3, AttemptTimeout: time.Second, Interval: 10 * time.Second},
			},
		})
		for _, c := range g.Servers[i].Checks {
			g.Rows[c.Row] = store.ProbeRow{Server: c.Row, Round: now.Add(-5 * time.Second), Outcome: health.Accept}
			g.Remembered.States[c.Row] = health.State{Status: health.Up}
		}
	}
	lb := &LoadBalancer{
		LoadBalancer: elbv2types.LoadBalancer{
			LoadBalancerArn: aws.String(lbARN), Type: elbv2types.LoadBalancerTypeEnumNetwork, VpcId: aws.String("vpc-1"),
			State: &elbv2types.LoadBalancerState{Code: elbv2types.LoadBalancerStateEnumActive},
		},
		Attributes: map[string]string{attributeCrossZone: "false"}, Listened: true,
	}
	for _, z := range []string{"a", "b", "c"} {
		lb.AvailabilityZones = append(lb.AvailabilityZones, elbv2types.AvailabilityZone{ZoneName: aws.String("eu-central-1" + z)})
	}
	for i, port := range []int32{1812, 1813} {
		arn := g.Group.TargetGroups[i].ARN
		lb.Listeners = append(lb.Listeners, elbv2types.Listener{
			ListenerArn: aws.String("listener"), Port: &port, Protocol: elbv2types.ProtocolEnumUdp,
			DefaultActions: []elbv2types.Action{{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: &arn}},
		})
		g.TargetGroups = append(g.TargetGroups, goodTargetGroup(g, i, port, lb))
	}
	f.Groups, f.Fleet.Groups = []*Group{g}, []fleet.Group{g.Group}
	f.Credentials = []*Credential{{Name: "corp", Account: true, Needed: true}}
	variables := map[string]string{"RADWITNESS_PROBES_TABLE": "probes", "RADWITNESS_FLEET_VERSION": "abc"}
	f.Prober = &Function{
		Name: "radwitness-prober", State: lambdatypes.StateActive, Update: lambdatypes.LastUpdateStatusSuccessful, Timeout: 90 * time.Second,
		Environment: variables, Concurrency: true, Reserved: aws.Int32(3),
	}
	f.Reconciler = &Function{
		Name: "radwitness-reconciler", State: lambdatypes.StateActive, Update: lambdatypes.LastUpdateStatusSuccessful, Timeout: time.Minute,
		Environment: variables, Concurrency: true,
	}
	f.Mappings = []Mapping{{
		UUID: aws.String("uuid-1"), EventSourceArn: aws.String("stream-1"), State: aws.String("Enabled"), LastProcessingResult: aws.String("OK"),
		ParallelizationFactor: aws.Int32(1),
		FilterCriteria:        &lambdatypes.FilterCriteria{Filters: []lambdatypes.Filter{{Pattern: aws.String(`{"eventName": ["INSERT", "MODIFY"]}`)}}},
	}}
	f.Schedules = []*Schedule{{
		Name: "radwitness-prober-0", State: schedulertypes.ScheduleStateEnabled, Expression: "cron(* * * * ? *)",
		Window: schedulertypes.FlexibleTimeWindowModeOff, Target: "arn:aws:lambda:eu-central-1:123456789012:function:radwitness-prober",
	}}
	f.Tables = []*Table{
		{
			Name: "probes", SortKey: "server", Streams: true, Status: "ACTIVE", Keys: []string{"group", "server"},
			StreamARN: "stream-1", View: "NEW_AND_OLD_IMAGES", Expiry: new("expires_at"),
		},
		{Name: "health", SortKey: "item", Status: "ACTIVE", Keys: []string{"group", "item"}, Expiry: new("expires_at")},
	}
	f.Queues = []Queue{{Of: "radwitness-prober", URL: "https://q"}}
	f.IteratorAge, f.Skew = new(800*time.Millisecond), new(-time.Second)
	return f
}

func goodTargetGroup(g *Group, n int, port int32, lb *LoadBalancer) *TargetGroup {
	t := &TargetGroup{
		Group: g, Config: g.Group.TargetGroups[n],
		Described: &elbv2types.TargetGroup{
			Protocol: elbv2types.ProtocolEnumUdp, Port: &port, TargetType: elbv2types.TargetTypeEnumInstance, VpcId: aws.String("vpc-1"),
			HealthCheckProtocol: elbv2types.ProtocolEnumTcp, HealthCheckPort: aws.String("22"),
			HealthCheckIntervalSeconds: aws.Int32(10), HealthyThresholdCount: aws.Int32(3),
		},
		Attributes: map[string]string{
			attributeDelay: "120", attributeTermination: "true", attributeSticky: "true", attributeClientIP: "true",
			attributeProxy: "false", attributeCrossZone: "true", attributeFailover: "1",
		},
		Plan: &balancer.Plan{}, LoadBalancers: []*LoadBalancer{lb},
	}
	for i, s := range g.Servers {
		t.Plan.Registered = append(t.Plan.Registered, s.Name)
		t.Plan.Observed = append(t.Plan.Observed, balancer.Listed{
			Target: balancer.Target{ID: fmt.Sprintf("i-%d", i+1), Port: port}, Server: s.Name,
			TargetState: balancer.TargetState{State: elbv2types.TargetHealthStateEnumHealthy, Zone: "eu-central-1" + string(rune('a'+i))},
		})
	}
	return t
}

// problems are the findings that are not ok, in words.
func problems(findings []Finding) []string {
	var list []string
	for _, f := range findings {
		if f.Level != OK {
			list = append(list, fmt.Sprintf("%s %s, %s: %s", f.Level, f.Check, f.Subject, f.Says))
		}
	}
	return list
}

func TestNothingIsWrongWithAGoodDeployment(t *testing.T) {
	findings := judge(good())
	if list := problems(findings); list != nil {
		t.Errorf("false alarms:\n%v", list)
	}
	made := map[string]bool{"target-group": true, "not-checked": true}
	for _, f := range findings {
		made[f.Check] = true
	}
	for _, section := range Sections() {
		for _, c := range section.Checks {
			if !made[c.Name] {
				t.Errorf("check %s says nothing of a good deployment", c.Name)
			}
		}
	}
}

// Each fault is found by one check, and by no other.
func TestChecks(t *testing.T) {
	auth := func(f *Facts) *TargetGroup { return f.Groups[0].TargetGroups[0] }
	set := func(key, value string) func(*Facts) { return func(f *Facts) { auth(f).Attributes[key] = value } }
	state := func(f *Facts, n int, s elbv2types.TargetHealthStateEnum) {
		l := &auth(f).Plan.Observed[n]
		l.State, l.Reason = s, elbv2types.TargetHealthReasonEnumFailedHealthChecks
	}
	row := func(f *Facts, name string, edit func(*store.ProbeRow)) {
		r := f.Groups[0].Rows[name]
		edit(&r)
		f.Groups[0].Rows[name] = r
	}
	seconds := func(n int) string { return fmt.Sprint(n) }
	const tg = "target group auth: "
	for _, test := range []struct {
		name  string
		fault func(*Facts)
		want  []string
	}{
		{"target group missing", func(f *Facts) {
			*auth(f) = TargetGroup{Group: f.Groups[0], Config: fleet.TargetGroup{ARN: authARN}, Missing: true}
		},
			[]string{"fail target-group, target group auth: is not there: " + authARN}},
		{"TCP", func(f *Facts) { auth(f).Described.Protocol = elbv2types.ProtocolEnumTcp }, []string{"fail protocol, " + tg + "protocol is TCP"}},
		{"TCP_UDP is fine", func(f *Facts) { auth(f).Described.Protocol = elbv2types.ProtocolEnumTcpUdp }, nil},
		{"type alb", func(f *Facts) { auth(f).Described.TargetType, auth(f).Plan = elbv2types.TargetTypeEnumAlb, nil },
			[]string{"fail target-type, " + tg + "type is alb"}},
		{"another port than is probed", func(f *Facts) { auth(f).Described.Port = aws.Int32(1645) },
			[]string{"fail port, " + tg + "users are sent to port 1645, which is not probed on ise-1, ise-2, ise-3"}},
		{"accounting alone that is not probed", func(f *Facts) {
			f.Groups[0].TargetGroups = f.Groups[0].TargetGroups[1:]
			f.Groups[0].Group.TargetGroups = nil
		},
			[]string{"fail port, target group acct: users are sent to port 1813, which is not probed on ise-1, ise-2, ise-3"}},
		{"a port of the fleet file's", func(f *Facts) { auth(f).Described.Port, auth(f).Config.Port = aws.Int32(1), 1812 }, nil},
		{"no load balancer", func(f *Facts) { auth(f).LoadBalancers = nil }, []string{"fail listener, " + tg + "no listener forwards to it"}},
		{"no listener", func(f *Facts) { lb := auth(f).LoadBalancers[0]; lb.Listeners = lb.Listeners[1:] },
			[]string{"fail listener, " + tg + "no listener of radius forwards to it"}},
		{"a listener for TCP", func(f *Facts) { auth(f).LoadBalancers[0].Listeners[0].Protocol = elbv2types.ProtocolEnumTcp },
			[]string{"fail listener, " + tg + "radius listens on port 1812 for TCP only"}},
		{"a weighted listener is fine", func(f *Facts) {
			auth(f).LoadBalancers[0].Listeners[0].DefaultActions = []elbv2types.Action{{ForwardConfig: &elbv2types.ForwardActionConfig{
				TargetGroups: []elbv2types.TargetGroupTuple{{TargetGroupArn: aws.String(authARN)}},
			}}}
		}, nil},
		{"a load balancer that is provisioning", func(f *Facts) { auth(f).LoadBalancers[0].State.Code = "failed" },
			[]string{"fail listener, target group acct: load balancer radius is failed", "fail listener, " + tg + "load balancer radius is failed"}},
		{"termination off, whatever the delay", func(f *Facts) { set(attributeTermination, "false")(f); set(attributeDelay, "0")(f) },
			[]string{"fail connection-termination, " + tg + "off: a NAS that sends from one port stays on a server that is out for ever"}},
		{"termination not told", func(f *Facts) { delete(auth(f).Attributes, attributeTermination) },
			[]string{"warn connection-termination, " + tg + "not checked: AWS does not tell the attribute " + attributeTermination}},
		{"delay at its least", set(attributeDelay, seconds(minDelay)), nil},
		{"delay too short", set(attributeDelay, seconds(minDelay-1)),
			[]string{"warn deregistration-delay, " + tg + "119 s: AWS advises at least 120 s with connection termination"}},
		{"delay at AWS's default", set(attributeDelay, seconds(maxDelay)), nil},
		{"delay too long", set(attributeDelay, seconds(maxDelay+1)),
			[]string{"warn deregistration-delay, " + tg + "301 s: a busy NAS stays on a server that is out for that long"}},
		{"EAP without stickiness", set(attributeSticky, "false"),
			[]string{"warn stickiness, " + tg + "off, and the group speaks EAP (peap-mschapv2)"}},
		{"PAP without stickiness is fine", func(f *Facts) {
			set(attributeSticky, "false")(f)
			for i := range f.Groups[0].Servers {
				f.Groups[0].Servers[i].Checks = f.Groups[0].Servers[i].Checks[:1]
			}
		}, nil},
		{"client addresses lost", set(attributeClientIP, "false"),
			[]string{"fail client-address, " + tg + "client IP preservation is off: all requests come from the load balancer"}},
		{"proxy protocol", set(attributeProxy, "true"),
			[]string{"fail client-address, " + tg + "proxy protocol is on: what arrives is no RADIUS packet"}},
		{"zones leave DNS early", set(attributeFailover, "2"),
			[]string{"warn dns-failover, " + tg + "a zone leaves DNS with fewer than 2 healthy targets, and the group fails open at fewer than 1"}},
		{"failover by percentage alone", set(attributeFailover, "off"), nil},
		{"traffic port, and something listens", func(f *Facts) { auth(f).Described.HealthCheckPort = aws.String("traffic-port") }, nil},
		{"no target passes the load balancer's check", func(f *Facts) {
			auth(f).Described.HealthCheckPort = aws.String("traffic-port")
			for i := range 3 {
				state(f, i, elbv2types.TargetHealthStateEnumUnhealthy)
			}
		}, []string{"fail health-check-port, " + tg + "no target passes it: TCP to the port that RADIUS is sent to"}},
		{"one authenticates and does not pass it", func(f *Facts) { state(f, 1, elbv2types.TargetHealthStateEnumUnhealthy) },
			[]string{"fail health-check, " + tg + "ise-2 authenticates, and the load balancer sends it nothing: Target.FailedHealthChecks"}},
		{"one is down anyway", func(f *Facts) {
			state(f, 1, elbv2types.TargetHealthStateEnumUnhealthy)
			f.Groups[0].Remembered.States["ise-2/pap"] = health.State{Status: health.Down}
		}, nil},
		{"one is new", func(f *Facts) { state(f, 1, elbv2types.TargetHealthStateEnumInitial) }, nil},
		{"a slow check", func(f *Facts) { auth(f).Described.HealthyThresholdCount = aws.Int32(19) },
			[]string{"warn health-check-pace, " + tg + "19 checks, one every 10 s: a server that comes back waits 3m10s"}},
		{"another VPC", func(f *Facts) { auth(f).Described.VpcId = aws.String("vpc-2") },
			[]string{"warn vpc, " + tg + "the target group is in vpc-2, the prober in vpc-1"}},
		{"cross-zone off, one server in each zone", set(attributeCrossZone, "use_load_balancer_configuration"),
			[]string{"warn cross-zone, " + tg + "off, with one server in eu-central-1a, eu-central-1b, eu-central-1c"}},
		{"cross-zone on by the load balancer", func(f *Facts) {
			set(attributeCrossZone, "use_load_balancer_configuration")(f)
			auth(f).LoadBalancers[0].Attributes[attributeCrossZone] = "true"
		}, nil},
		{"an empty zone", func(f *Facts) {
			set(attributeCrossZone, "false")(f)
			for i := range 3 {
				auth(f).Plan.Observed[i].Zone = "eu-central-1" + map[bool]string{true: "a", false: "b"}[i == 0]
			}
			l := auth(f).Plan.Observed[0]
			l.Target.ID, l.Server = "i-4", "ise-4"
			auth(f).Plan.Observed = append(auth(f).Plan.Observed, l)
		}, []string{"fail zones, " + tg + "without a target: eu-central-1c; cross-zone balancing is off"}},
		{"an empty zone with cross-zone is fine", func(f *Facts) { auth(f).Plan.Observed[2].Zone = "eu-central-1b" }, nil},
		{"a target in a zone that is not enabled", func(f *Facts) {
			auth(f).LoadBalancers[0].AvailabilityZones = auth(f).LoadBalancers[0].AvailabilityZones[:2]
		},
			[]string{"fail zones, target group acct: not enabled at the load balancer: i-3:1813 in eu-central-1c",
				"fail zones, " + tg + "not enabled at the load balancer: i-3:1812 in eu-central-1c"}},
		{"a zone that is not known, cross-zone off", func(f *Facts) { set(attributeCrossZone, "false")(f); auth(f).Plan.Observed[2].Zone = "" },
			[]string{"warn zones, " + tg + "not checked: the zone of a target is not known"}},
		{"an instance that does not run", func(f *Facts) {
			auth(f).Plan.Refused = []balancer.Refusal{{Server: "ise-3", Reason: "i-3 is stopped, only a running instance can be registered"}}
		}, []string{"fail server-target, " + tg + "ise-3: i-3 is stopped, only a running instance can be registered"}},
		{"an instance that does not run any more", func(f *Facts) {
			state(f, 2, elbv2types.TargetHealthStateEnumUnused)
			auth(f).Plan.Observed[2].Reason = elbv2types.TargetHealthReasonEnumInvalidState
		}, []string{"fail server-target, " + tg + "ise-3: i-3:1812 is registered and cannot serve: Target.InvalidState"}},
		{"a server that is out on purpose, without an instance", func(f *Facts) {
			auth(f).Plan.Refused = []balancer.Refusal{{Server: "ise-3", Reason: "no instance"}}
			f.Groups[0].Servers[2].Admin = fleet.AdminOut
		}, []string{"warn server-target, " + tg + "ise-3: no instance"}},
		{"nothing registered", func(f *Facts) { auth(f).Plan.Observed, auth(f).Plan.Registered = nil, nil },
			[]string{"fail registered, " + tg + "the target group is empty"}},
		{"draining only", func(f *Facts) {
			for i := range 3 {
				state(f, i, elbv2types.TargetHealthStateEnumDraining)
			}
		}, []string{"fail registered, " + tg + "the target group is empty"}},
		{"an unmanaged target", func(f *Facts) { auth(f).Plan.Unmanaged = []balancer.Target{{ID: "i-9", Port: 1812}} },
			[]string{"warn unmanaged, " + tg + "i-9:1812 is no server's"}},
		{"one that is pruned", func(f *Facts) {
			auth(f).Plan.Unmanaged = []balancer.Target{{ID: "i-9", Port: 1812}}
			f.Groups[0].Prune = true
		}, nil},
		{"a server on another port", func(f *Facts) { auth(f).Plan.Unmanaged = []balancer.Target{{ID: "i-1", Port: 1645}} },
			[]string{"fail other-port, " + tg + "ise-1 is registered on port 1645 as well"}},
		{"accounting that nobody manages", func(f *Facts) {
			f.Fleet.Groups[0].TargetGroups = f.Fleet.Groups[0].TargetGroups[:1]
			f.Groups[0].TargetGroups = f.Groups[0].TargetGroups[:1]
		}, []string{"warn other-listeners, load balancer radius: port 1813 leads to acct, which no group has"}},

		{"never probed at all", func(f *Facts) { f.Groups[0].Rows = map[string]store.ProbeRow{} },
			[]string{"fail probes, group vpn: no server was ever probed"}},
		{"a silent prober", func(f *Facts) { f.At = now.Add(silence - 4*time.Second) },
			[]string{"fail probes, group vpn: the newest probe is 3m1s old"}},
		{"a prober that is just not silent", func(f *Facts) { f.At = now.Add(silence - 5*time.Second) }, nil},
		{"a round in the future", func(f *Facts) {
			row(f, "ise-1/pap", func(r *store.ProbeRow) { r.Round = now.Add(maxSkew + time.Second) })
		},
			[]string{"fail future-rounds, group vpn: from the future: ise-1/pap at 2026-11-30T12:05:01Z"}},
		{"a silent prober, and a round in the future", func(f *Facts) {
			f.At = now.Add(time.Hour)
			row(f, "ise-1/pap", func(r *store.ProbeRow) { r.Round = f.At.Add(time.Hour) })
		}, []string{"fail probes, group vpn: the newest probe is 1h0m5s old", "fail future-rounds, group vpn: from the future: ise-1/pap at 2026-11-30T14:00:00Z"}},
		{"a round as far as clocks differ", func(f *Facts) { row(f, "ise-1/pap", func(r *store.ProbeRow) { r.Round = now.Add(maxSkew) }) }, nil},
		{"a server without a row", func(f *Facts) { delete(f.Groups[0].Rows, "ise-2/pap") },
			[]string{"warn never-probed, group vpn: never probed: ise-2/pap"}},
		{"a probe that could not be made", func(f *Facts) {
			row(f, "ise-2/pap", func(r *store.ProbeRow) { r.Outcome, r.Reason = health.ProberError, "no route" })
		}, []string{"fail prober-error, group vpn: ise-2/pap: no route"}},
		{"an unreadable row", func(f *Facts) {
			f.Groups[0].Remembered.Unreadable = map[string]error{"ise-1/pap": errors.New("status is odd")}
		},
			[]string{"fail unreadable-rows, group vpn: status is odd"}},
		{"an unreadable drain", func(f *Facts) {
			f.Groups[0].Remembered.Unreadable = map[string]error{"ise-1": errors.New("until is odd")}
		},
			[]string{"fail unreadable-rows, group vpn: until is odd"}},
		{"no pass", func(f *Facts) { f.Groups[0].Passes = new(0.0) }, []string{"fail passes, group vpn: none in the last 5m0s"}},
		{"a pass that failed", func(f *Facts) { f.Groups[0].Remembered.Group.PassError = "Rate exceeded" },
			[]string{"fail pass-failed, group vpn: Rate exceeded"}},

		{"a secret that cannot be used", func(f *Facts) {
			*f.Credentials[0] = Credential{Name: "corp", Err: errors.New("is not a JSON object"), Short: true}
		},
			[]string{"fail secret, credentials corp: is not a JSON object"}},
		{"no account", func(f *Facts) { f.Credentials[0].Account = false },
			[]string{"fail secret, credentials corp: username and password are missing, and a server's probe logs in"}},
		{"no account where none is needed", func(f *Facts) { f.Credentials[0].Account, f.Credentials[0].Needed = false, false }, nil},
		{"a short secret", func(f *Facts) { f.Credentials[0].Short = true },
			[]string{"warn secret-length, credentials corp: the shared secret has less than 16 octets"}},
		{"a secret that we may not read", func(f *Facts) {
			f.Credentials[0].Unknown = true
			f.Gaps = []Gap{{Subject: "credentials corp", What: "the secret", Action: "secretsmanager:GetSecretValue", Denied: true}}
		}, []string{"warn not-checked, credentials corp: to read the secret needs secretsmanager:GetSecretValue"}},
		{"an API without an answer", func(f *Facts) {
			f.Gaps = []Gap{{Subject: "stream", What: "metric IteratorAge", Err: &smithy.GenericAPIError{Code: "Throttling", Message: "Rate exceeded"}}}
		}, []string{"warn not-checked, stream: metric IteratorAge could not be read: Throttling: Rate exceeded"}},

		{"no reconciler", func(f *Facts) {
			*f.Reconciler = Function{Name: "radwitness-reconciler", Missing: true}
			f.Mappings = nil
		},
			[]string{"fail function, function radwitness-reconciler: is not there"}},
		{"a function that failed", func(f *Facts) { f.Prober.State, f.Prober.StateReason = lambdatypes.StateFailed, "subnet gone" },
			[]string{"fail function, function radwitness-prober: is failed: subnet gone"}},
		{"a function that rests", func(f *Facts) { f.Prober.State = lambdatypes.StateInactive }, nil},
		{"an update that failed", func(f *Facts) { f.Prober.Update = lambdatypes.LastUpdateStatusFailed },
			[]string{"fail function, function radwitness-prober: its last update: failed"}},
		{"switched off by hand", func(f *Facts) { f.Reconciler.Reserved = aws.Int32(0) },
			[]string{"fail concurrency, function radwitness-reconciler: is switched off: its reserved concurrency is 0"}},
		{"too little for two minutes at once", func(f *Facts) { f.Prober.Reserved = aws.Int32(1) },
			[]string{"warn concurrency, function radwitness-prober: reserved concurrency is 1, and 2 may run at once"}},
		{"no time for the longest probe", func(f *Facts) { f.Prober.Timeout = 62 * time.Second },
			[]string{"warn timeout, function radwitness-prober: 1m2s, and it needs 1m3s"}},
		{"time for the longest probe", func(f *Facts) { f.Prober.Timeout = 63 * time.Second }, nil},
		{"other tables", func(f *Facts) { f.HealthTable = "mine"; f.Reconciler.Environment["RADWITNESS_HEALTH_TABLE"] = "theirs" },
			[]string{"fail environment, functions: RADWITNESS_HEALTH_TABLE is theirs there, and mine here"}},
		{"another fleet file", func(f *Facts) { f.FileVersion = "def" },
			[]string{"warn fleet-version, functions: version abc is deployed, and this file is version def"}},
		{"one function with another fleet file", func(f *Facts) { f.Prober.Environment = map[string]string{"RADWITNESS_FLEET_VERSION": "old"} },
			[]string{"warn fleet-version, functions: radwitness-prober: version old is deployed, and this file is version abc"}},
		{"no schedule", func(f *Facts) { *f.Schedules[0] = Schedule{Name: "s", Missing: true} }, []string{"fail schedule, schedule s: is not there"}},
		{"schedule disabled", func(f *Facts) { f.Schedules[0].State = schedulertypes.ScheduleStateDisabled },
			[]string{"fail schedule, schedule radwitness-prober-0: is disabled"}},
		{"schedule disabled on purpose", func(f *Facts) {
			f.Schedules[0].State = schedulertypes.ScheduleStateDisabled
			f.Fleet.Deploy.Schedule = false
			f.At = now.Add(time.Hour)
		},
			[]string{"warn schedule, schedule radwitness-prober-0: is disabled, as fleet.yaml has it (deploy.schedule: false)"}},
		{"schedule too rare", func(f *Facts) { f.Schedules[0].Expression = "rate(5 minutes)" },
			[]string{"fail schedule, schedule radwitness-prober-0: fires at rate(5 minutes), not every minute"}},
		{"schedule in a window", func(f *Facts) { f.Schedules[0].Window = schedulertypes.FlexibleTimeWindowModeFlexible },
			[]string{"warn schedule, schedule radwitness-prober-0: fires within a flexible time window: minutes come late, or overlap"}},
		{"schedule of something else", func(f *Facts) { f.Schedules[0].Target = "arn:aws:lambda:x:1:function:other" },
			[]string{"fail schedule, schedule radwitness-prober-0: invokes arn:aws:lambda:x:1:function:other, not the prober"}},
		{"no table", func(f *Facts) { *f.Tables[1] = Table{Name: "health", SortKey: "item", Missing: true} },
			[]string{"fail table, table health: is not there"}},
		{"other keys", func(f *Facts) { f.Tables[1].Keys = []string{"id"} },
			[]string{"fail table, table health: its keys are [id], not [group item]"}},
		{"no stream", func(f *Facts) { f.Tables[0].StreamARN = "" },
			[]string{"fail table, table probes: has no stream: the reconciler learns nothing"}},
		{"a stream of keys", func(f *Facts) { f.Tables[0].View = "KEYS_ONLY" },
			[]string{"fail table, table probes: its stream has KEYS_ONLY, without the new images"}},
		{"no expiry", func(f *Facts) { f.Tables[0].Expiry = new("") }, []string{"warn expiry, table probes: rows do not expire"}},
		{"expiry by another attribute", func(f *Facts) { f.Tables[0].Expiry = new("ttl") },
			[]string{"warn expiry, table probes: rows expire by ttl, which they do not have"}},
		{"records given up", func(f *Facts) { f.Queues[0].Messages = 2 }, []string{"warn failures, failures of radwitness-prober: about 2 messages"}},
		{"a wrong clock", func(f *Facts) { f.Skew = new(-6 * time.Second) },
			[]string{"warn clock, this machine: its clock differs from AWS's by 6s"}},

		{"no mapping", func(f *Facts) { f.Mappings = []Mapping{} },
			[]string{"fail stream-mapping, stream: no event source mapping invokes the reconciler"}},
		{"two mappings", func(f *Facts) { f.Mappings = append(f.Mappings, Mapping{}) },
			[]string{"warn stream-mapping, stream: 2 event source mappings invoke the reconciler, and one is enough"}},
		{"mapping disabled", func(f *Facts) {
			f.Mappings[0].State, f.Mappings[0].StateTransitionReason = aws.String("Disabled"), aws.String("User action")
		}, []string{"fail stream-mapping, stream: is disabled: User action"}},
		{"mapping on its way", func(f *Facts) { f.Mappings[0].State = aws.String("Enabling") },
			[]string{"warn stream-mapping, stream: is enabling: look again in a minute"}},
		{"another table's stream", func(f *Facts) { f.Mappings[0].EventSourceArn = aws.String("stream-0") },
			[]string{"fail stream-mapping, stream: it reads stream-0, and the table's stream is stream-1"}},
		{"groups out of order", func(f *Facts) { f.Mappings[0].ParallelizationFactor = aws.Int32(2) },
			[]string{"fail stream-order, stream: the parallelization factor is 2"}},
		{"a narrow filter", func(f *Facts) {
			f.Mappings[0].FilterCriteria.Filters[0].Pattern = aws.String(`{"eventName":["INSERT"]}`)
		}, []string{`fail stream-order, stream: its filter is {"eventName":["INSERT"]}`}},
		{"an invocation that failed", func(f *Facts) { f.Mappings[0].LastProcessingResult = aws.String("PROBLEM: Function call failed") },
			[]string{"fail stream-result, stream: PROBLEM: Function call failed"}},
		{"a minute behind", func(f *Facts) { f.IteratorAge = new(maxLag) }, nil},
		{"more than a minute behind", func(f *Facts) { f.IteratorAge = new(maxLag + time.Second) },
			[]string{"fail stream-lag, stream: up to 1m1s behind in the last 5m0s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := good()
			test.fault(f)
			findings := judge(f)
			if diff := cmp.Diff(test.want, problems(findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			for _, finding := range findings {
				if finding.Level != OK && finding.Mend == "" {
					t.Errorf("nothing says how to mend %s", finding.Check)
				}
				if blank.MatchString(finding.Mend) {
					t.Errorf("%s leaves a blank: %s", finding.Check, finding.Mend)
				}
				if finding.Level == OK && finding.Mend != "" {
					t.Errorf("%s mends what is well", finding.Check)
				}
			}
		})
	}
}

// That no probes or passes are made is told once, by what stops them.
func TestConsequencesAreNotToldAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  func(*Facts)
		silent bool // the prober stands still, and not the reconciler alone
		want   string
	}{
		{"the prober alone", func(*Facts) {}, true, "fail probes, group vpn: the newest probe is 1h0m5s old"},
		{"the reconciler alone", func(*Facts) {}, false, "fail passes, group vpn: none in the last 5m0s"},
		{"no prober", func(f *Facts) { f.Prober.Missing = true }, true, "fail function, function radwitness-prober: is not there"},
		{"prober switched off", func(f *Facts) { f.Prober.Reserved = aws.Int32(0) }, true,
			"fail concurrency, function radwitness-prober: is switched off: its reserved concurrency is 0"},
		{"schedule disabled", func(f *Facts) { f.Schedules[0].State = schedulertypes.ScheduleStateDisabled }, true,
			"fail schedule, schedule radwitness-prober-0: is disabled"},
		{"no schedule", func(f *Facts) { *f.Schedules[0] = Schedule{Name: "s", Missing: true} }, true, "fail schedule, schedule s: is not there"},
		{"reconciler switched off", func(f *Facts) { f.Reconciler.Reserved = aws.Int32(0) }, false,
			"fail concurrency, function radwitness-reconciler: is switched off: its reserved concurrency is 0"},
		{"no mapping", func(f *Facts) { f.Mappings = []Mapping{} }, false, "fail stream-mapping, stream: no event source mapping invokes the reconciler"},
		{"mapping disabled", func(f *Facts) { f.Mappings[0].State = aws.String("Disabled") }, false, "fail stream-mapping, stream: is disabled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := good()
			f.Groups[0].Passes = new(0.0)
			if test.silent {
				f.At = now.Add(time.Hour)
			}
			test.fault(f)
			if diff := cmp.Diff([]string{test.want}, problems(judge(f))); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// A group without anything that could be read gives no verdict, only gaps.
func TestNothingIsSaidOfWhatIsNotKnown(t *testing.T) {
	f := good()
	f.Groups[0] = &Group{Group: f.Groups[0].Group, TargetGroups: []*TargetGroup{{Config: fleet.TargetGroup{ARN: authARN}}}}
	f.Groups[0].TargetGroups[0].Group = f.Groups[0]
	f.Credentials, f.Prober, f.Reconciler, f.Mappings, f.Queues, f.IteratorAge, f.Skew = nil, nil, nil, nil, nil, nil, nil
	f.Schedules = []*Schedule{{Name: "s"}}
	f.Tables = []*Table{{Name: "probes", SortKey: "server", Streams: true}, {Name: "health", SortKey: "item"}}
	if findings := judge(f); len(findings) > 0 {
		t.Errorf("findings %+v", findings)
	}
	f = good()
	for _, t := range f.Groups[0].TargetGroups {
		t.Attributes, t.Plan = nil, nil
		t.LoadBalancers[0].Attributes, t.LoadBalancers[0].Listened = nil, false
	}
	if list := problems(judge(f)); list != nil {
		t.Errorf("findings %v", list)
	}
}
