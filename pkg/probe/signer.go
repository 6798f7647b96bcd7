package probe

import (
	"crypto/hmac"
	"crypto/md5"
	"hash"
)

// signer makes the authenticators of packets under one shared secret. It is kept
// for the next probe, as most of the work is what HMAC does with the secret. It is
// for use by one goroutine at a time.
type signer struct {
	secret Secret
	hash   hash.Hash
	mac    hash.Hash
	sum    [md5.Size]byte // the newest authenticator
}

func newSigner(secret Secret) *signer {
	return &signer{secret: secret, hash: md5.New(), mac: hmac.New(md5.New, secret)}
}

// authenticator is the MD5 of a packet and the secret, as RFC 2865 section 3 and
// RFC 2866 section 3 want it. It is valid until the next one is made.
func (s *signer) authenticator(packet ...[]byte) []byte {
	s.hash.Reset()
	for _, part := range packet {
		s.hash.Write(part)
	}
	s.hash.Write(s.secret)
	return s.hash.Sum(s.sum[:0])
}

// messageAuthenticator is the HMAC-MD5 of a packet, RFC 3579 section 3.2. It is
// valid until the next one is made.
func (s *signer) messageAuthenticator(packet ...[]byte) []byte {
	s.mac.Reset()
	for _, part := range packet {
		s.mac.Write(part)
	}
	return s.mac.Sum(s.sum[:0])
}

// zeros stand for an authenticator in the calculation of its own value.
func zeros() []byte { return make([]byte, md5.Size) }
