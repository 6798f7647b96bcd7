package probe

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

const redacted = "[redacted]"

// Secret is a byte string that no formatting, logging or encoding shows. It
// may hold any bytes, NUL included.
type Secret []byte

// String returns a placeholder.
func (Secret) String() string { return redacted }

// Format writes the placeholder for every verb and flag.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalJSON encodes the placeholder.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText encodes the placeholder.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue logs the placeholder.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// Credentials are what a probe authenticates with. The user name is not a
// secret, but it has no place in rows and metrics either.
type Credentials struct {
	SharedSecret Secret // between the NAS and the server, RFC 2865 section 3
	Username     string
	Password     Secret
}

// redact replaces the secrets in a text of the server's: one that repeats a
// password to its user must not bring it into a row.
func (c Credentials) redact(text string) string {
	for _, s := range []Secret{c.SharedSecret, c.Password} {
		if len(s) > 0 {
			text = strings.ReplaceAll(text, string(s), redacted)
			text = strings.ReplaceAll(text, printable(s), redacted)
		}
	}
	return text
}
