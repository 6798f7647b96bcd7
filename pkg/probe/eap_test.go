package probe

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2866"
	"layeh.com/radius/rfc2869"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
)

// eapRequestOf is a challenge with an EAP request and a state.
func eapRequestOf(identifier byte, kind eapType, data ...byte) (radius.Code, radius.Attributes) {
	p := &radius.Packet{}
	for _, part := range [][]byte{eapPacket{code: eapRequest, identifier: identifier, kind: kind, data: data}.encode()} {
		p.Add(rfc2869.EAPMessage_Type, part)
	}
	p.Add(rfc2865.State_Type, []byte{'s', identifier})
	return radius.CodeAccessChallenge, p.Attributes
}

// eapOf is the EAP response in a request of the prober.
func eapOf(t testing.TB, p *radius.Packet) eapPacket {
	t.Helper()
	e, err := parseEAP(eapMessage(p.Attributes))
	if err != nil || e.code != eapResponse {
		t.Fatalf("the prober sent code %d, %v", e.code, err)
	}
	return e
}

func TestEAPMD5(t *testing.T) {
	challenge := append([]byte{16}, "challenge16bytes"...)
	tests := []struct {
		name    string
		answers []func(e eapPacket) (radius.Code, radius.Attributes) // one after the other
		outcome health.Outcome
		err     error
	}{
		{"accept", []func(eapPacket) (radius.Code, radius.Attributes){
			func(eapPacket) (radius.Code, radius.Attributes) { return eapRequestOf(7, eapMD5, challenge...) },
			func(e eapPacket) (radius.Code, radius.Attributes) {
				if e.identifier != 7 || !bytes.Equal(e.data, append([]byte{16}, chapResponse(7, Secret("hello"), challenge[1:])...)) {
					t.Errorf("response %+v", e)
				}
				return radius.CodeAccessAccept, nil
			},
		}, health.Accept, nil},
		{"another method first, and a notification", []func(eapPacket) (radius.Code, radius.Attributes){
			func(eapPacket) (radius.Code, radius.Attributes) {
				return eapRequestOf(1, eapNotification, []byte("maintenance at noon")...)
			},
			func(e eapPacket) (radius.Code, radius.Attributes) {
				if e.kind != eapNotification || len(e.data) != 0 {
					t.Errorf("acknowledgement %+v", e)
				}
				return eapRequestOf(2, eapPEAP, flagStart)
			},
			func(e eapPacket) (radius.Code, radius.Attributes) {
				if e.kind != eapNAK || !bytes.Equal(e.data, []byte{byte(eapMD5)}) {
					t.Errorf("NAK %+v", e)
				}
				return eapRequestOf(3, eapMD5, challenge...)
			},
			func(eapPacket) (radius.Code, radius.Attributes) { return radius.CodeAccessReject, nil },
		}, health.Reject, nil},
		{"the method is not offered", []func(eapPacket) (radius.Code, radius.Attributes){
			func(eapPacket) (radius.Code, radius.Attributes) { return eapRequestOf(1, eapPEAP, flagStart) },
			func(eapPacket) (radius.Code, radius.Attributes) { return eapRequestOf(2, eapTTLS, flagStart) },
		}, "", errEAP},
		{"rejected at once", []func(eapPacket) (radius.Code, radius.Attributes){
			func(eapPacket) (radius.Code, radius.Attributes) { return radius.CodeAccessReject, nil },
		}, health.Reject, nil},
		{"accepted without a challenge", []func(eapPacket) (radius.Code, radius.Attributes){
			func(eapPacket) (radius.Code, radius.Attributes) { return radius.CodeAccessAccept, nil },
		}, "", errImpostor},
		{"empty challenge", []func(eapPacket) (radius.Code, radius.Attributes){
			func(eapPacket) (radius.Code, radius.Attributes) { return eapRequestOf(1, eapMD5, 0) },
		}, "", errEAP},
		{"challenge longer than the packet", []func(eapPacket) (radius.Code, radius.Attributes){
			func(eapPacket) (radius.Code, radius.Attributes) { return eapRequestOf(1, eapMD5, 3, 1, 2) },
		}, "", errEAP},
		{"a challenge without EAP", []func(eapPacket) (radius.Code, radius.Attributes){
			func(eapPacket) (radius.Code, radius.Attributes) { return radius.CodeAccessChallenge, nil },
		}, "", errEAP},
		{"another request after the response", []func(eapPacket) (radius.Code, radius.Attributes){
			func(eapPacket) (radius.Code, radius.Attributes) { return eapRequestOf(1, eapMD5, challenge...) },
			func(eapPacket) (radius.Code, radius.Attributes) { return eapRequestOf(2, eapMD5, challenge...) },
		}, "", errEAP},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := testRequest()
			turn := 0
			var state []byte
			c := scripted(t, r, func(p *radius.Packet) (radius.Code, radius.Attributes) {
				e := eapOf(t, p)
				if turn == 0 && (e.kind != eapIdentity || string(e.data) != "bob") {
					t.Errorf("identity %+v", e)
				}
				if !bytes.Equal(p.Get(rfc2865.State_Type), state) {
					t.Errorf("state %q, want %q", p.Get(rfc2865.State_Type), state)
				}
				turn++
				code, attributes := tt.answers[turn-1](e)
				state = attributes.Get(rfc2865.State_Type)
				return code, attributes
			})
			got, err := eapMD5Challenge(c)
			if got != tt.outcome || !errors.Is(err, tt.err) {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func TestEAPWithoutEnd(t *testing.T) {
	c := scripted(t, testRequest(), func(*radius.Packet) (radius.Code, radius.Attributes) {
		return eapRequestOf(1, eapNotification)
	})
	if _, err := eapMD5Challenge(c); !errors.Is(err, errEAP) || c.result.Transactions != maxEAPMessages {
		t.Errorf("got %v after %d transactions", err, c.result.Transactions)
	}
}

func TestEarlyAcceptIsAnImpostors(t *testing.T) {
	for _, m := range []method{peapMSCHAPv2, ttlsPAP} {
		answers := 0
		c := scripted(t, testRequest(), func(p *radius.Packet) (radius.Code, radius.Attributes) {
			if answers++; answers == 1 {
				return eapRequestOf(1, eapPEAP, flagStart)
			}
			if answers == 2 && eapOf(t, p).kind == eapNAK {
				return eapRequestOf(2, eapTTLS, flagStart)
			}
			return radius.CodeAccessAccept, nil
		})
		if _, err := m(c); !errors.Is(err, errImpostor) {
			t.Errorf("got %v", err)
		}
	}
}

// The tunnel cuts what is too long, and joins what came in parts.
func TestTunnelFragments(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 150) // 2,400 octets: three fragments
	var received []byte
	var flags []byte
	p := &peer{latest: eapPacket{identifier: 1, kind: eapTTLS, data: []byte{flagStart}}}
	p.conversation = scripted(t, testRequest(), func(packet *radius.Packet) (radius.Code, radius.Attributes) {
		e := eapOf(t, packet)
		flags = append(flags, e.data[0])
		f, err := parseFragment(e.data)
		if err != nil {
			t.Fatal(err)
		}
		received = append(received, f.data...)
		switch {
		case f.more:
			return eapRequestOf(e.identifier+1, eapTTLS, 0)
		case len(f.data) > 0:
			return eapRequestOf(e.identifier+1, eapTTLS, append([]byte{flagLength | flagMore, 0, 0, 0, 6}, "abc"...)...)
		}
		return eapRequestOf(e.identifier+1, eapTTLS, append([]byte{0}, "def"...)...)
	})
	tn := &tunnel{peer: p, kind: eapTTLS}
	if _, err := tn.Write(long); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := tn.Read(b)
	if err != nil || string(b[:n]) != "abcdef" {
		t.Errorf("got %q, %v", b[:n], err)
	}
	if !bytes.Equal(received, long) || !bytes.Equal(flags, []byte{flagLength | flagMore, flagMore, 0, 0}) {
		t.Errorf("sent %d octets under flags % x", len(received), flags)
	}
}

func TestTunnelRefuses(t *testing.T) {
	for name, data := range map[string][]byte{
		"no flags":              {},
		"no length":             {flagLength, 0, 0},
		"announces too much":    {flagLength, 0, 1, 0, 1},
		"less than announced":   append([]byte{flagLength, 0, 0, 0, 9}, "four"...),
		"more than announced":   append([]byte{flagLength, 0, 0, 0, 3}, "four"...),
		"a length without data": {flagLength, 0, 0, 0, 1},
	} {
		tn := &tunnel{peer: &peer{latest: eapPacket{kind: eapTTLS, data: data}}, kind: eapTTLS}
		if err := tn.receive(); !errors.Is(err, errEAP) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestInnerMethod(t *testing.T) {
	inner := func(kind eapType, data ...byte) []byte { return append([]byte{byte(kind)}, data...) }
	mschap := func(op byte, body string) []byte {
		b := []byte{byte(eapMSCHAPv2), op, 5, 0, 0}
		b = append(b, body...)
		binary.BigEndian.PutUint16(b[3:], uint16(len(b)-1))
		return b
	}
	result := func(status byte) []byte {
		return eapPacket{code: eapRequest, identifier: 9, kind: eapExtensions, data: []byte{0x80, 3, 0, 2, 0, status}}.encode()
	}
	challenge := mschap(opChallenge, "\x10challenge16bytesserver")
	m := innerMethod{credentials: Credentials{Username: "bob", Password: Secret("hello")}}
	if got, err := m.answer(inner(eapIdentity), 8); err != nil || string(got) != "\x01bob" {
		t.Errorf("identity: %q, %v", got, err)
	}
	if got, err := m.answer(eapPacket{code: eapRequest, identifier: 8, kind: eapIdentity}.encode(), 8); err != nil || string(got) != "\x01bob" {
		t.Errorf("identity with a header: %q, %v", got, err)
	}
	if got, err := m.answer(inner(eapMD5, 1, 2), 8); err != nil || !bytes.Equal(got, []byte{byte(eapNAK), byte(eapMSCHAPv2)}) {
		t.Errorf("another method: % x, %v", got, err)
	}
	if _, err := m.answer(result(resultSuccess), 8); !errors.Is(err, errImpostor) {
		t.Errorf("success before the proof: %v", err)
	}
	if _, err := m.answer(mschap(opSuccess, "S="), 8); !errors.Is(err, errImpostor) {
		t.Errorf("success before the challenge: %v", err)
	}
	got, err := m.answer(challenge, 8)
	if err != nil || len(got) != 1+4+1+49+3 || got[1] != opResponse || got[2] != 5 || got[5] != 49 || string(got[len(got)-3:]) != "bob" {
		t.Fatalf("challenge: % x, %v", got, err)
	}
	if _, err := m.answer(mschap(opSuccess, "S=407A5589115FD0D6209F510FE9C04566932CDA56"), 8); !errors.Is(err, errImpostor) {
		t.Errorf("wrong proof: %v", err)
	}
	if got, err := m.answer(mschap(opSuccess, string(m.response.proof)+" M=ok"), 8); err != nil || !bytes.Equal(got, []byte{byte(eapMSCHAPv2), opSuccess}) || !m.proven {
		t.Errorf("right proof: % x, %v", got, err)
	}
	if got, err := m.answer(result(resultSuccess), 8); err != nil || !bytes.Equal(got, append([]byte{2}, result(resultSuccess)[1:]...)) {
		t.Errorf("result: % x, %v", got, err)
	}
	if got, err := m.answer(mschap(opFailure, "E=691 R=0 M=no"), 8); err != nil || !bytes.Equal(got, []byte{byte(eapMSCHAPv2), opFailure}) || m.reason != "MS-CHAP error 691: authentication failure (no)" {
		t.Errorf("failure: % x, %v, %q", got, err, m.reason)
	}
	for _, bad := range [][]byte{
		{}, mschap(9, ""), mschap(opChallenge, "\x08challenge"), mschap(opChallenge, "\x10short"), {byte(eapMSCHAPv2), 1, 1, 0, 99},
		{byte(eapMSCHAPv2)}, result(3), eapPacket{code: eapRequest, kind: eapExtensions, data: []byte{0x80, 3, 0, 2}}.encode(),
	} {
		if got, err := m.answer(bad, 8); !errors.Is(err, errEAP) {
			t.Errorf("% x: got % x, %v", bad, got, err)
		}
	}
}

func TestTTLSPassword(t *testing.T) {
	got := ttlsPassword(Credentials{Username: "bob", Password: Secret("hello")})
	want := unhex(t, "00000001 4000000b 626f6200 00000002 40000018 68656c6c6f 0000000000000000000000")
	if !bytes.Equal(got, want) {
		t.Errorf("got  % x\nwant % x", got, want)
	}
	for length, padded := range map[int]int{0: 16, 15: 16, 16: 16, 17: 32, 128: 128} {
		if got := len(ttlsPassword(Credentials{Password: make(Secret, length)})); got != 8+8+padded {
			t.Errorf("password of %d octets takes %d", length, got-16)
		}
	}
}

func TestAccountingRequest(t *testing.T) {
	r := testRequest()
	r.Method = fleet.Accounting
	var statuses []rfc2866.AcctStatusType
	sessions := map[string]bool{}
	c := scripted(t, r, func(p *radius.Packet) (radius.Code, radius.Attributes) {
		statuses = append(statuses, rfc2866.AcctStatusType_Get(p))
		sessions[rfc2866.AcctSessionID_GetString(p)] = true
		return radius.CodeAccountingResponse, nil
	})
	real := c.exchange
	c.exchange = func(tr *transaction, end time.Time) (answer, int, error) {
		if !radius.IsAuthenticRequest(tr.wire, tr.secret) {
			t.Error("the Request Authenticator is wrong")
		}
		return real(tr, end)
	}
	got, err := accounting(c)
	if err != nil || got != health.Alive {
		t.Errorf("got %s, %v", got, err)
	}
	if len(statuses) != 2 || statuses[0] != rfc2866.AcctStatusType_Value_Start || statuses[1] != rfc2866.AcctStatusType_Value_Stop {
		t.Errorf("statuses %v", statuses)
	}
	for session := range sessions {
		if len(sessions) != 1 || len(session) != len(sessionPrefix)+16 || session[:len(sessionPrefix)] != sessionPrefix {
			t.Errorf("sessions %v", sessions)
		}
	}
}

// FreeRADIUS hashes an Accounting-Response with zeros for the authenticator,
// others with that of the request. Both are right here and nowhere else.
func TestMessageAuthenticatorOfAccountingResponse(t *testing.T) {
	for _, tt := range []struct {
		code   radius.Code
		zeroed bool
		want   error
	}{
		{radius.CodeAccountingResponse, false, nil},
		{radius.CodeAccountingResponse, true, nil},
		{radius.CodeAccessAccept, false, nil},
		{radius.CodeAccessAccept, true, errMessageAuthenticator},
	} {
		tr := mustTransact(t, testRequest())
		tr.fits = []radius.Code{tt.code}
		wire := reply(t, tr, tt.code, messageAuthenticator())
		if tt.zeroed {
			wire = zeroedMAC(tr, wire)
		}
		if _, err := tr.read(wire); !errors.Is(err, tt.want) {
			t.Errorf("%v, zeroed %v: %v", tt.code, tt.zeroed, err)
		}
	}
}

// zeroedMAC is an answer with its Message-Authenticator made as FreeRADIUS does
// for accounting.
func zeroedMAC(tr *transaction, wire []byte) []byte {
	clear(wire[4:20])
	clear(wire[22:38])
	mac := hmac.New(md5.New, tr.secret)
	mac.Write(wire)
	mac.Sum(wire[22:22])
	return sign(tr, wire)
}

func FuzzEAP(f *testing.F) {
	f.Add(eapPacket{code: eapRequest, identifier: 1, kind: eapPEAP, data: []byte{flagStart}}.encode())
	f.Add(eapPacket{code: eapRequest, identifier: 1, kind: eapMD5, data: append([]byte{16}, "challenge16bytes"...)}.encode())
	f.Add([]byte{3, 1, 0, 4})
	f.Add([]byte{1, 1, 0, 5, 1, 9, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseEAP(b)
		if err != nil {
			if outcomeOf(err) != health.Malformed {
				t.Errorf("%v counts as %s", err, outcomeOf(err))
			}
			return
		}
		if got := p.encode(); !bytes.Equal(got, b[:len(got)]) {
			t.Errorf("% x encodes as % x", b, got)
		}
	})
}

func FuzzTLSFragment(f *testing.F) {
	f.Add([]byte{flagLength | flagMore, 0, 0, 0, 6, 'a', 'b', 'c'})
	f.Add([]byte{0})
	f.Add([]byte{flagLength, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseFragment(b)
		if err != nil {
			if outcomeOf(err) != health.Malformed {
				t.Errorf("%v counts as %s", err, outcomeOf(err))
			}
			return
		}
		if len(got.data) > len(b) || got.total > maxTLSMessage {
			t.Errorf("% x is %+v", b, got)
		}
	})
}

// FuzzInner checks what comes through the tunnel: no two messages make the peer
// panic, and none but the right proof makes a server proven.
func FuzzInner(f *testing.F) {
	challenge := append([]byte{byte(eapMSCHAPv2), opChallenge, 5, 0, 21, 16}, "challenge16bytes"...)
	success := eapPacket{code: eapRequest, identifier: 9, kind: eapExtensions, data: []byte{0x80, 3, 0, 2, 0, 1}}.encode()
	f.Add([]byte{byte(eapIdentity)}, challenge, byte(1))
	f.Add(challenge, []byte("\x1a\x03\x05\x00\x2eS=407A5589115FD0D6209F510FE9C04566932CDA56"), byte(1))
	f.Add(challenge, []byte("\x1a\x04\x05\x00\x09E=691"), byte(1))
	f.Add(success, success, byte(1))
	f.Fuzz(func(t *testing.T, first, second []byte, outer byte) {
		m := innerMethod{credentials: Credentials{Username: "bob", Password: Secret("hello")}}
		for _, message := range [][]byte{first, second} {
			got, err := m.answer(message, outer)
			if err != nil && outcomeOf(err) != health.Malformed && outcomeOf(err) != health.BadAuthenticator {
				t.Errorf("%v counts as %s", err, outcomeOf(err))
			}
			if err == nil && len(got) == 0 {
				t.Error("an empty response")
			}
		}
		if m.proven {
			t.Errorf("% x, % x proves the server", first, second)
		}
	})
}

// FuzzConversation plays a server that knows the shared secret and nothing else.
// Whatever it says, no method that asks for proof ends with an accept.
func FuzzConversation(f *testing.F) {
	say := func(messages ...eapPacket) []byte {
		var script []byte
		for _, m := range messages {
			b := m.encode()
			script = append(append(script, byte(radius.CodeAccessChallenge), byte(len(b))), b...)
		}
		return append(script, byte(radius.CodeAccessAccept), 0)
	}
	start := eapPacket{code: eapRequest, identifier: 1, kind: eapPEAP, data: []byte{flagStart}}
	alert := eapPacket{code: eapRequest, identifier: 2, kind: eapPEAP, data: []byte{0, 21, 3, 3, 0, 2, 2, 40}}
	more := eapPacket{code: eapRequest, identifier: 2, kind: eapPEAP, data: []byte{flagLength | flagMore, 0, 0, 0, 9, 22, 3, 3}}
	for method, kind := range []eapType{eapPEAP, eapTTLS} {
		method := byte(method)
		start.kind, alert.kind, more.kind = kind, kind, kind
		f.Add(say(), method)
		f.Add(say(start), method)
		f.Add(say(start, alert), method)
		f.Add(say(start, more, more), method)
	}
	f.Fuzz(func(t *testing.T, script []byte, method byte) {
		c := scripted(t, testRequest(), func(*radius.Packet) (radius.Code, radius.Attributes) {
			if len(script) < 2 {
				return radius.CodeAccessReject, nil
			}
			code, length := radius.Code(script[0]), min(int(script[1]), len(script)-2)
			p := &radius.Packet{}
			p.Add(rfc2869.EAPMessage_Type, script[2:2+length])
			script = script[2+length:]
			if code != radius.CodeAccessAccept && code != radius.CodeAccessChallenge {
				code = radius.CodeAccessReject
			}
			return code, p.Attributes
		})
		got, err := []func(*conversation) (health.Outcome, error){peapMSCHAPv2, ttlsPAP}[int(method)%2](c)
		switch {
		case err == nil && got != health.Reject:
			t.Errorf("%s without a proof", got)
		case err != nil && outcomeOf(err) != health.Malformed && outcomeOf(err) != health.BadAuthenticator:
			t.Errorf("%v counts as %s", err, outcomeOf(err))
		}
	})
}
