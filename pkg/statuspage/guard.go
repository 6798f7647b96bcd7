package statuspage

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policy allows the page its own files and nothing else, and makes the browser
// refuse any text that is used as HTML or as a script (CSP Level 3; Trusted Types).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard keeps other sites out, which the browser of whoever may see the page
// would let in: they must neither read it under a name of their own (DNS
// rebinding), nor press its switches (CSRF), nor frame it.
func guard(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection() // refuses what would change something
	next = protection.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		switch {
		case !ownName(r.Host):
			http.Error(w, "open this page by the address that it listens on, or as localhost", http.StatusMisdirectedRequest)
		case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
			http.Error(w, "another site asks for this", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ownName reports whether a Host header is an address or localhost. Any other
// name could have been made to point here by whoever owns it.
func ownName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	_, err = netip.ParseAddr(name)
	return err == nil || strings.EqualFold(name, "localhost")
}

// ErrReachable refuses an address that other machines can reach.
var ErrReachable = errors.New("other machines can reach it, and the page asks nobody who they are: use 127.0.0.1, and ssh -L from elsewhere")

// Listen opens the address of a page. It refuses one that other machines can
// reach, unless anyone may look.
func Listen(address string, anyone bool) (net.Listener, error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("status page on %s: %w", address, err)
	}
	if !anyone && !resolved.IP.IsLoopback() {
		return nil, fmt.Errorf("status page on %s: %w", address, ErrReachable)
	}
	listener, err := net.Listen("tcp", resolved.String())
	if err != nil {
		return nil, fmt.Errorf("status page on %s: %w", address, err)
	}
	return listener, nil
}
