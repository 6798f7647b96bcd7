package capacity

import "testing"

func TestProberMB(t *testing.T) {
	for _, tt := range []struct{ checks, want int }{
		{0, 128}, {4, 128}, {90, 128}, {91, 192}, {135, 192}, {136, 256}, {1000, 1472}, {100_000, 1769},
	} {
		if got := ProberMB(tt.checks); got != tt.want {
			t.Errorf("%d checks: %d MB, want %d", tt.checks, got, tt.want)
		}
	}
}

func TestEnvironmentLeavesRoom(t *testing.T) {
	// Code and stacks of threads are not in what the limit counts.
	if got := Environment(128)["GOMEMLIMIT"]; got != "80MiB" {
		t.Errorf("GOMEMLIMIT %s with 128 MB, want 80MiB", got)
	}
}
