package framework_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/batonzk/baton/framework"
)

// certificate returns one for a host name, and the pool that trusts it.
func certificate(t *testing.T, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// tlsServer is an ensemble whose one server is known by name and reached by
// address, as after a look-up in the DNS.
type tlsServer struct {
	name string
	addr net.Addr
}

func (s tlsServer) Servers(context.Context) ([]net.Addr, error) {
	return []net.Addr{namedAddr{s.addr, s.name}}, nil
}
func (tlsServer) Chroot() string { return "" }

type namedAddr struct {
	net.Addr
	name string
}

func (a namedAddr) ServerName() string { return a.name }

// plainServer has no name but its address.
type plainServer struct{ addr net.Addr }

func (s plainServer) Servers(context.Context) ([]net.Addr, error) { return []net.Addr{s.addr}, nil }
func (plainServer) Chroot() string                                { return "" }

func TestTLS(t *testing.T) {
	srv := startServer(t)
	cert, pool := certificate(t, "zk.test")
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l) //nolint:errcheck // ends with the server

	c := connect(t, tlsServer{"zk.test", l.Addr()}, framework.WithTLS(&tls.Config{RootCAs: pool}))
	create(t, c, "/n", "x")
	st := record(c)
	srv.DropConnections()
	st.want(t, framework.Suspended, framework.Reconnected)
	if data, _, err := c.Get(t.Context(), "/n"); err != nil || string(data) != "x" {
		t.Fatal(string(data), err)
	}

	for name, tc := range map[string]struct {
		ens framework.Ensemble
		cfg *tls.Config
		ok  bool
	}{
		"wrong name":     {tlsServer{"other.test", l.Addr()}, &tls.Config{RootCAs: pool}, false},
		"wrong address":  {tlsServer{"127.0.0.2", l.Addr()}, &tls.Config{RootCAs: pool}, false},
		"address only":   {plainServer{l.Addr()}, &tls.Config{RootCAs: pool}, true},
		"unknown issuer": {tlsServer{"zk.test", l.Addr()}, new(tls.Config), false},
		"name in config": {tlsServer{"other.test", l.Addr()}, &tls.Config{RootCAs: pool, ServerName: "zk.test"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan error, 100)
			c := newClient(t, tc.ens, framework.WithTLS(tc.cfg), framework.WithHooks(failures(failed)))
			if tc.ok {
				if err := c.WaitConnected(t.Context()); err != nil {
					t.Fatal(err)
				}
				return
			}
			var err error
			select {
			case err = <-failed:
			case <-time.After(5 * time.Second):
				t.Fatal("not refused")
			}
			var invalid *tls.CertificateVerificationError
			if !errors.As(err, &invalid) || c.State() != 0 {
				t.Fatalf("%v, state %v", err, c.State())
			}
		})
	}
}

// failures is a hook that passes on why attempts failed.
type failures chan error

func (f failures) OnConnection(info framework.ConnectionInfo) {
	if !info.Up {
		select {
		case f <- info.Err:
		default:
		}
	}
}
