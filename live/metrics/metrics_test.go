package metrics

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"stalloc/live/page"
)

func processes() []page.Process {
	return []page.Process{{PID: os.Getpid(), Devices: []page.Device{{Ordinal: 2, Now: page.Sample{Stats: page.Stats{
		Requests: 100, Hits: 75, Allocated: 1 << 30, Reserved: 3 << 29, DriverNS: 25e8, PlanGeneration: 1,
	}}}}}}
}

func open(t *testing.T) *Server {
	t.Helper()
	s, err := Serve(0, processes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func get(t *testing.T, s *Server) string {
	t.Helper()
	answer, err := http.Get("http://" + s.Addr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", answer.Status, err)
	}
	return string(text)
}

// TestServe: what is known of a device, with its labels, and where.
func TestServe(t *testing.T) {
	s := open(t)
	if !strings.HasPrefix(s.Addr(), "127.0.0.1:") {
		t.Errorf("it answers at %s", s.Addr())
	}
	text := get(t, s)
	labels := fmt.Sprintf(`{device="2",pid="%d",rank=""}`, os.Getpid())
	for _, want := range []string{
		"stalloc_requests_total" + labels + " 100", "stalloc_plan_hits_total" + labels + " 75", "stalloc_reserved_bytes" + labels + " 1.610612736e+09",
		"stalloc_driver_seconds_total" + labels + " 2.5", "# TYPE stalloc_allocated_bytes gauge", "# TYPE stalloc_ooms_total counter",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
}

// TestLint: the names are as Prometheus wants them.
func TestLint(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(get(t, open(t)))).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestGarbage: what is no question is refused, and questions are still answered.
func TestGarbage(t *testing.T) {
	s := open(t)
	for _, text := range []string{
		"\x16\x03\x01\x02\x00\x01\x00\x01", "GET\r\n\r\n", "GET /metrics HTTP/9.9\r\n\r\n", "GET /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, text) // it may hang up before the end
		c.(*net.TCPConn).CloseWrite()
		line, _ := bufio.NewReader(c).ReadString('\n')
		if strings.Contains(line, " 200 ") {
			t.Errorf("%.40q is answered: %s", text, line)
		}
		c.Close()
	}
	for range 50 { // that say nothing
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	get(t, s)
}

// TestSilent: connections that say nothing cost a bounded number of files, and nobody the answer.
func TestSilent(t *testing.T) {
	s := open(t)
	files := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	const silent = 300
	before := files()
	for range silent {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	get(t, s) // behind all of them
	if here := files() - before - silent; here > 64 {
		t.Errorf("%d connections are held open", here)
	}
}

// TestStranger: another account of the machine gets no figure.
func TestStranger(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can ask as another user")
	}
	s := open(t)
	const ask = `exec 3<>/dev/tcp/127.0.0.1/$0; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; cat <&3`
	_, port, _ := net.SplitHostPort(s.Addr())
	for uid, want := range map[uint32]string{0: "stalloc_requests_total", 65534: "403 Forbidden"} {
		c := exec.Command("bash", "-c", ask, port)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		said, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(said), want) || uid != 0 && strings.Contains(string(said), "stalloc_") {
			t.Errorf("user %d: %v\n%s", uid, err, said)
		}
	}
}

// TestOwner: this process is found to own its connections.
func TestOwner(t *testing.T) {
	s := open(t)
	c, err := net.Dial("tcp4", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	from, to := c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)
	if uid, err := owner(from, to); uid != os.Geteuid() || err != nil {
		t.Errorf("user %d, %v", uid, err)
	}
	if _, err := owner(to, &net.TCPAddr{IP: from.IP, Port: 1}); err == nil {
		t.Error("a connection that is not there has an owner")
	}
}

// TestTaken: a port that is in use is named.
func TestTaken(t *testing.T) {
	s := open(t)
	_, port, _ := net.SplitHostPort(s.Addr())
	var number int
	fmt.Sscan(port, &number)
	if _, err := Serve(number, processes); err == nil || !strings.Contains(err.Error(), port) || !strings.Contains(err.Error(), "choose another port") {
		t.Errorf("error %v", err)
	}
}
