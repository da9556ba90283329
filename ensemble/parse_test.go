package ensemble_test

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/batonzk/baton/ensemble"
)

// inOrder leaves the addresses in the order of the connect string.
func inOrder(int, func(i, j int)) {}

// parsed returns what NewFixed makes of a connect string.
func parsed(t testing.TB, connect string) (servers []string, chroot string) {
	t.Helper()
	f, err := ensemble.NewFixed(connect, ensemble.WithShuffle(inOrder))
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := f.Servers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		servers = append(servers, a.String())
	}
	return servers, f.Chroot()
}

func TestConnectStrings(t *testing.T) {
	for _, c := range []struct {
		connect string
		servers []string
		chroot  string
	}{
		{"zk1", []string{"zk1:2181"}, ""},
		{"zk1:2182", []string{"zk1:2182"}, ""},
		{"zk1:1,zk2:65535", []string{"zk1:1", "zk2:65535"}, ""},
		{"zk1.example.org.,10.1.2.3:2182", []string{"zk1.example.org.:2181", "10.1.2.3:2182"}, ""},
		{"[::1]", []string{"[::1]:2181"}, ""},
		{"[2001:DB8::7]:2182,[fe80::1%eth0]", []string{"[2001:db8::7]:2182", "[fe80::1%eth0]:2181"}, ""},
		{" zk1:2181 ,\tzk2 \n", []string{"zk1:2181", "zk2:2181"}, ""},
		{"zk1 /app\n", []string{"zk1:2181"}, "/app"},
		{"zk1/", []string{"zk1:2181"}, ""},
		{"zk1,zk2/a/b c/ü", []string{"zk1:2181", "zk2:2181"}, "/a/b c/ü"},
		{"zk1:2181,ZK1,zk2,zk1:02181", []string{"zk1:2181", "zk2:2181"}, ""},
		{"[::1],[0:0::1]:2181", []string{"[::1]:2181"}, ""},
		{"my_zk-1", []string{"my_zk-1:2181"}, ""},
		{"zk1/..a/.b./c..", []string{"zk1:2181"}, "/..a/.b./c.."},
	} {
		servers, chroot := parsed(t, c.connect)
		if !slices.Equal(servers, c.servers) || chroot != c.chroot {
			t.Errorf("%q: %q and chroot %q, want %q and %q", c.connect, servers, chroot, c.servers, c.chroot)
		}
	}
}

func TestConnectStringsRefused(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, c := range []struct {
		connect string
		named   string // what the error has to name
	}{
		{"", `no server in ""`},
		{"  ", `no server in "  "`},
		{"/app", `no server in "/app"`},
		{"zk1,", `entry 2 of "zk1,"`},
		{",zk1", `entry 1 of ",zk1"`},
		{"zk1,,zk2", `entry 2`},
		{"zk1, /app", `entry 2`},
		{":2181", `no host in ":2181"`},
		{"zk1:", `port ""`},
		{"zk1:0", `port "0"`},
		{"zk1:65536", `port "65536"`},
		{"zk1:-1", `port "-1"`},
		{"zk1:+1", `port "+1"`},
		{"zk1:client", `port "client"`},
		{"zk1:2181app", `port "2181app"`},
		{"zk1: 2181", `port " 2181"`},
		{"zk://zk1:2181/app", `"zk://zk1:2181/app" is a URL`},
		{"::1", `brackets: "[::1]:2181"`},
		{"2001:db8::7:2181", `"2001:db8::7:2181" needs brackets`},
		{"zk1:2181:2888", `more than one colon in "zk1:2181:2888"`},
		{"[::1", `bracket not closed in "[::1"`},
		{"[::1]2181", `"2181" after the bracket`},
		{"[::1]:", `port ""`},
		{"[10.1.2.3]:2181", `"[10.1.2.3]:2181"`},
		{"[zk1]", `"[zk1]"`},
		{"[]", `"[]"`},
		{"10.1.2", `"10.1.2"`},
		{"10.1.2.256", `"10.1.2.256"`},
		{"zk 1", `"zk 1"`},
		{"zk1;zk2", `"zk1;zk2"`},
		{"-zk1", `"-zk1"`},
		{"zk1-.org", `"zk1-.org"`},
		{"zk1..org", `"zk1..org"`},
		{".", `"."`},
		{"zük", `"zük"`},
		{long, long},
		{strings.Repeat("a.", 128), "not a host name"},
		{"zk1/app/", `"/app/"`},
		{"zk1//", `"//"`},
		{"zk1//app", `"//app" has an empty component`},
		{"zk1/a//b", `"/a//b"`},
		{"zk1/./a", `"."`},
		{"zk1/a/..", `".."`},
		{"zk1/a\x00b", "U+0000"},
		{"zk1/a\tb", "U+0009"},
		{"zk1/a\u0085b", "U+0085"},
		{"zk1/a\ue000", "U+E000"},
		{"zk1/a\ufffd", "U+FFFD"},
		{"zk1/a\xff", `"/a\xff" is not UTF-8`},
	} {
		_, err := ensemble.NewFixed(c.connect)
		if !errors.Is(err, ensemble.ErrConnectString) {
			t.Errorf("%q: %v, want ErrConnectString", c.connect, err)
		} else if !strings.Contains(err.Error(), c.named) {
			t.Errorf("%q: %q does not have %q in it", c.connect, err, c.named)
		}
		if _, errDNS := ensemble.NewDNS(c.connect); errDNS == nil || errDNS.Error() != err.Error() {
			t.Errorf("%q: NewDNS says %v, NewFixed %v", c.connect, errDNS, err)
		}
	}
}

// What is accepted can be dialed, has no duplicates, and means the same when
// it is put together again.
func FuzzConnectString(f *testing.F) {
	for _, seed := range []string{
		"zk1", "zk1:2181,[::1]:2182/app", "[fe80::1%eth0]/a/b", " a , b:1 /x ", "::1", "a:0", "a//b", "1.2.3.4:5,1.2.3.4:5", "a/\ufffd", "[::%]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, connect string) {
		if _, err := ensemble.NewFixed(connect); err != nil {
			if !errors.Is(err, ensemble.ErrConnectString) {
				t.Fatalf("%q: %v", connect, err)
			}
			return
		}
		servers, chroot := parsed(t, connect)
		if len(servers) == 0 {
			t.Fatalf("%q: no servers", connect)
		}
		seen := make(map[string]bool)
		for _, s := range servers {
			host, port, err := net.SplitHostPort(s)
			if n, convErr := strconv.Atoi(port); err != nil || convErr != nil || host == "" || n < 1 || n > 65535 {
				t.Fatalf("%q: server %q cannot be dialed", connect, s)
			}
			if seen[strings.ToLower(s)] {
				t.Fatalf("%q: %q twice", connect, s)
			}
			seen[strings.ToLower(s)] = true
		}
		if chroot != "" && (chroot[0] != '/' || strings.HasSuffix(chroot, "/")) {
			t.Fatalf("%q: chroot %q", connect, chroot)
		}
		again, chrootAgain := parsed(t, strings.Join(servers, ",")+chroot)
		if !slices.Equal(again, servers) || chrootAgain != chroot {
			t.Fatalf("%q: %q %q became %q %q", connect, servers, chroot, again, chrootAgain)
		}
	})
}
