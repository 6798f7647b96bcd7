package credentials

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"radwitness/pkg/probe"
)

// The keys of a secret. Those in base64 are for values that are not text.
const (
	keySharedSecret       = "shared_secret"
	keySharedSecretBase64 = "shared_secret_base64"
	keyUsername           = "username"
	keyPassword           = "password"
	keyPasswordBase64     = "password_base64"
)

// Limits of RADIUS attributes.
const (
	maxUsername = 253 // bytes, RFC 2865 section 5
	maxPassword = 128 // bytes, RFC 2865 section 5.2
)

func keys() []string {
	return []string{keySharedSecret, keySharedSecretBase64, keyUsername, keyPassword, keyPasswordBase64}
}

// fromJSON reads the JSON object of a secret. Keys that it does not know are
// ignored: rotation functions and other users of the secret keep theirs there.
// The errors of encoding/json quote their input, so none is passed on.
func fromJSON(data []byte) (probe.Credentials, error) {
	if !utf8.Valid(data) {
		return probe.Credentials{}, errors.New("is not UTF-8; put such values into the keys that end in _base64")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil || object == nil {
		return probe.Credentials{}, errors.New("is not a JSON object")
	}
	values := map[string]string{}
	for _, key := range keys() {
		raw, ok := object[key]
		if !ok {
			continue
		}
		var text *string
		if json.Unmarshal(raw, &text) != nil || text == nil {
			return probe.Credentials{}, fmt.Errorf("%s is not a JSON string", key)
		}
		// This is what half a surrogate pair decodes to: other bytes than were meant.
		if strings.ContainsRune(*text, utf8.RuneError) {
			return probe.Credentials{}, fmt.Errorf("%s is not Unicode text; put such values into the keys that end in _base64", key)
		}
		values[key] = *text
	}
	return assemble(values, func(key string) string { return key })
}

// fromEnvironment reads PREFIX_SHARED_SECRET and so on.
func fromEnvironment(prefix string, lookup func(string) (string, bool)) (probe.Credentials, error) {
	name := func(key string) string { return prefix + "_" + strings.ToUpper(key) }
	values := map[string]string{}
	for _, key := range keys() {
		if text, ok := lookup(name(key)); ok {
			values[key] = text
		}
	}
	return assemble(values, name)
}

// assemble checks values and makes credentials of them. name is what a key is
// called where the values come from.
func assemble(values map[string]string, name func(key string) string) (probe.Credentials, error) {
	text, ok := values[keySharedSecret]
	if ok && text != strings.TrimRightFunc(text, unicode.IsSpace) {
		return probe.Credentials{}, fmt.Errorf("%s ends with white space, often a newline from a file; if it belongs there, use %s",
			name(keySharedSecret), name(keySharedSecretBase64))
	}
	sharedSecret, err := bytesOf(values, keySharedSecret, keySharedSecretBase64, name)
	if err != nil {
		return probe.Credentials{}, err
	}
	if !present(values, keyUsername, keyPassword, keyPasswordBase64) {
		// Status-Server needs no account; the methods that do say what they miss.
		return probe.Credentials{SharedSecret: sharedSecret}, nil
	}
	username := values[keyUsername]
	switch {
	case username == "":
		return probe.Credentials{}, fmt.Errorf("%s is missing or empty", name(keyUsername))
	case len(username) > maxUsername:
		return probe.Credentials{}, fmt.Errorf("%s is longer than %d bytes", name(keyUsername), maxUsername)
	}
	for _, key := range []string{keyUsername, keyPassword} {
		if strings.HasSuffix(values[key], "\n") {
			return probe.Credentials{}, fmt.Errorf("%s ends with a newline, as from a file", name(key))
		}
	}
	password, err := bytesOf(values, keyPassword, keyPasswordBase64, name)
	if err != nil {
		return probe.Credentials{}, err
	}
	if len(password) > maxPassword {
		return probe.Credentials{}, fmt.Errorf("%s is longer than %d bytes", name(keyPassword), maxPassword)
	}
	return probe.Credentials{SharedSecret: sharedSecret, Username: username, Password: password}, nil
}

// present tells whether any of the keys is there.
func present(values map[string]string, keys ...string) bool {
	for _, key := range keys {
		if _, ok := values[key]; ok {
			return true
		}
	}
	return false
}

// bytesOf returns the value that is given as text or in base64.
func bytesOf(values map[string]string, asText, asBase64 string, name func(key string) string) (probe.Secret, error) {
	text, isText := values[asText]
	encoded, isBase64 := values[asBase64]
	value := []byte(text)
	if isBase64 {
		if isText {
			return nil, fmt.Errorf("%s and %s are both given", name(asText), name(asBase64))
		}
		var err error
		if value, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, fmt.Errorf("%s is not base64", name(asBase64))
		}
	}
	if len(value) == 0 {
		return nil, fmt.Errorf("%s is missing or empty", name(asText))
	}
	return value, nil
}
