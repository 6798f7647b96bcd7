package telemetry_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"radwitness/pkg/telemetry"
)

func TestEmit(t *testing.T) {
	var out bytes.Buffer
	m := &telemetry.Metrics{Out: &out}
	err := m.Emit(time.UnixMilli(1796040000123), telemetry.Dimensions{Group: "vpn"},
		telemetry.Metric{Name: "up", Unit: "Count", Value: 3}, telemetry.Metric{Name: "latency_ms", Unit: "Milliseconds", Value: 2.5})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"Group":"vpn","_aws":{"CloudWatchMetrics":[{"Namespace":"radwitness","Dimensions":[["Group"]],` +
		`"Metrics":[{"Name":"up","Unit":"Count"},{"Name":"latency_ms","Unit":"Milliseconds"}]}],"Timestamp":1796040000123},"latency_ms":2.5,"up":3}` + "\n"
	if out.String() != want {
		t.Errorf("line\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if err := m.Emit(time.UnixMilli(0), telemetry.Dimensions{Group: "vpn", Server: "ise-1"}, telemetry.Metric{Name: "up"}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, `"Dimensions":[["Group","Server"]]`) || !strings.Contains(got, `"Server":"ise-1"`) {
		t.Errorf("line of a server: %s", got)
	}
	var none *telemetry.Metrics
	if err := none.Emit(time.Now(), telemetry.Dimensions{Group: "vpn"}, telemetry.Metric{Name: "up"}); err != nil {
		t.Errorf("nil Metrics: %v", err)
	}
}

func TestNewLogger(t *testing.T) {
	var out bytes.Buffer
	log, err := telemetry.NewLogger(&out, "warn")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("quiet")
	log.Warn("loud", "group", "vpn")
	if got := out.String(); strings.Contains(got, "quiet") || !strings.Contains(got, `"msg":"loud","group":"vpn"`) {
		t.Errorf("log %s", got)
	}
	if _, err := telemetry.NewLogger(&out, "chatty"); err == nil {
		t.Error("an unknown level gives no error")
	}
}
