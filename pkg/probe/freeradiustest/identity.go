package freeradiustest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"
)

// identity is the certificate of a server for the TLS methods, made for one
// test. The key is RSA, so that the chain takes more than one EAP packet.
type identity struct {
	ca, chain, key []byte // PEM; the chain begins with the server's own
	expires        time.Time
}

// newIdentity makes an authority and a server certificate that expires after
// the given time from now, which may be past.
func newIdentity(validFor time.Duration) (identity, error) {
	if validFor == 0 {
		validFor = 90 * 24 * time.Hour
	}
	now := time.Now().UTC().Truncate(time.Second)
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"radwitness"}, CommonName: "Test CA"},
		NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{Organization: []string{"radwitness"}, CommonName: "radius.example.com"},
		NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.Add(validFor),
		DNSNames: []string{"radius.example.com"}, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	authorityKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return identity{}, err
	}
	serverKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return identity{}, err
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return identity{}, err
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, serverKey.Public(), authorityKey)
	if err != nil {
		return identity{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		return identity{}, err
	}
	encode := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	ca := encode("CERTIFICATE", authorityDER)
	return identity{
		ca: ca, chain: append(encode("CERTIFICATE", serverDER), ca...), key: encode("PRIVATE KEY", keyDER), expires: server.NotAfter,
	}, nil
}
