package metrics

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"stalloc/live/page"
)

func processes() []page.Process {
	now := page.Stats{
		Requests: 100, Hits: 75, Allocated: 1 << 30, Reserved: 3 << 29, PeakAllocated: 1 << 30,
		PeakReserved: 2 << 30,
		DriverNS:     25e8, PlanGeneration: 1, Steps: 8,
	}
	return []page.Process{{PID: os.Getpid(), Devices: []page.Device{{
		Ordinal: 2, Now: page.Sample{At: time.Unix(12, 0),
			Stats: now}, Before: page.Sample{At: time.Unix(11, 0), Stats: page.Stats{Steps: 4}},
	}}}}
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
		"stalloc_requests_total" + labels + " 100", "stalloc_plan_hits_total" + labels +
			" 75", "stalloc_reserved_bytes" + labels + " 1.610612736e+09",
		"stalloc_driver_seconds_total" + labels + " 2.5", "stalloc_step_seconds" + labels +
			" 0.25", "stalloc_waste_ratio" + labels +
			" 0.5", "# TYPE stalloc_allocated_bytes gauge", "# TYPE stalloc_ooms_total counter",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
}

// TestDashboard: it names metrics that there are, and no others.
func TestDashboard(t *testing.T) {
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Query any } }
	}
	if err := json.Unmarshal([]byte(Dashboard), &board); err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	for _, m := range append(slices.Clone(metrics), capacity) {
		there[regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(m.desc.String())[1]] = true
	}
	named := make(map[string]bool)
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			for _, name := range regexp.MustCompile(`stalloc_\w+`).FindAllString(target.Expr, -1) {
				if named[name] = true; !there[name] {
					t.Errorf("%s: there is no metric %s", p.Title, name)
				}
			}
		}
	}
	for _, v := range board.Templating.List {
		for _, name := range regexp.MustCompile(`stalloc_\w+`).FindAllString(fmt.Sprint(v.Query),
			-1) {
			if named[name] = true; !there[name] {
				t.Errorf("a variable: there is no metric %s", name)
			}
		}
	}
	for _, want := range []string{"stalloc_step_seconds", "stalloc_waste_ratio",
		"stalloc_capacity_bytes", "stalloc_native_peak_reserved_bytes"} {
		if !named[want] {
			t.Errorf("it does not show %s", want)
		}
	}
}

// TestIndex: the root says where the metrics are, and the dashboard is served.
func TestIndex(t *testing.T) {
	s := open(t)
	for path, want := range map[string]string{"/": `href="/metrics"`, "/grafana.json": `"panels"`} {
		answer, err := http.Get("http://" + s.Addr() + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text),
			want) {
			t.Errorf("%s: %v, %s\n%s", path, err, answer.Status, text)
		}
	}
}

// TestListen: on another address than a loopback one whoever reaches it is answered.
func TestListen(t *testing.T) {
	gpus := []page.GPU{{Index: "0", Capacity: 80 << 30}, {Index: "1", Capacity: 80 << 30},
		{Index: "2", Capacity: 80 << 30}}
	for _, address := range []string{"0.0.0.0", "::"} {
		s, err := Listen(address, 0, gpus, processes)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(s.Addr())
		mine, other := "127.0.0.1", "::1"
		if address == "::" {
			mine, other = other, mine
		}
		if c, err := net.Dial("tcp", net.JoinHostPort(other, port)); err == nil {
			c.Close()
			t.Errorf("%s: it answers on %s, too", address, other)
		}
		answer, err := http.Get("http://" + net.JoinHostPort(mine, port) + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if want := fmt.Sprintf(`stalloc_capacity_bytes{device="2",pid="%d",rank=""} 8.589934592e+10`, os.Getpid()); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, no %s in\n%s", address, err, want, text)
		}
		s.Close()
	}
	if _, err := Listen("localhost", 0, nil, processes); err == nil ||
		!strings.Contains(err.Error(), "localhost: no address") {
		t.Errorf("%v", err)
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
		"\x16\x03\x01\x02\x00\x01\x00\x01", "GET\r\n\r\n", "GET /metrics HTTP/9.9\r\n\r\n",
		"GET /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
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
	get(t, s) // after all of them
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
		if err != nil || !strings.Contains(string(said), want) || uid != 0 &&
			strings.Contains(string(said), "stalloc_") {
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
	if _, err := Serve(number, processes); err == nil || !strings.Contains(err.Error(), port) ||
		!strings.Contains(err.Error(), "choose another port") {
		t.Errorf("error %v", err)
	}
}
