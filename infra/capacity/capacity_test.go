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
