// Package metrics publishes what pages tell (package page) as Prometheus metrics: on the
// loopback address to this user and root, on another one to whoever reaches it.
//
//	server, err := metrics.Serve(29470, func() []page.Process { ... })
//	curl http://127.0.0.1:29470/metrics
//
// Everything is read when it is asked for; between two questions nothing happens. grafana.json is
// a dashboard of it.
package metrics

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"stalloc/live/page"
)

// Port is what no exporter in Prometheus's list of them has by default.
const Port = 29470

// Dashboard is one of Grafana's, as JSON to be imported.
//
//go:embed grafana.json
var Dashboard string

const index = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>stalloc</title>
<h1>stalloc</h1>
<p>Memory of the training runs here, for Prometheus: <a href="/metrics">/metrics</a>.
A dashboard for Grafana, to be imported: <a href="/grafana.json">/grafana.json</a>.</p>
</html>
`

// metric is one figure of a device.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*page.Device) float64
}

func describe(kind prometheus.ValueType, name, help string,
	value func(*page.Device) float64) metric {
	return metric{prometheus.NewDesc("stalloc_"+name, help, []string{"pid", "rank", "device"}, nil),
		kind, value}
}

func counter(name, help string, value func(*page.Stats) uint64) metric {
	return describe(prometheus.CounterValue, name, help,
		func(d *page.Device) float64 { return float64(value(&d.Now.Stats)) })
}

func gauge(name, help string, value func(*page.Stats) uint64) metric {
	return describe(prometheus.GaugeValue, name, help,
		func(d *page.Device) float64 { return float64(value(&d.Now.Stats)) })
}

// metrics are all that is published.
var metrics = []metric{
	gauge("allocated_bytes", "Bytes in live blocks.",
		func(s *page.Stats) uint64 { return s.Allocated }),
	gauge("requested_bytes", "Bytes in live blocks, as they were asked for.",
		func(s *page.Stats) uint64 { return s.Requested }),
	gauge("active_bytes", "Bytes in blocks that are live or wait for other streams.",
		func(s *page.Stats) uint64 { return s.Active }),
	gauge("reserved_bytes", "Device memory held.",
		func(s *page.Stats) uint64 { return s.Reserved }),
	gauge("peak_allocated_bytes", "Most bytes in live blocks since the last reset.",
		func(s *page.Stats) uint64 { return s.PeakAllocated }),
	gauge("peak_reserved_bytes", "Most device memory held since the last reset.",
		func(s *page.Stats) uint64 { return s.PeakReserved }),
	gauge("native_peak_reserved_bytes",
		"Most that PyTorch's own allocator would have held, in which it is at full speed, estimated; 0: it cannot be told.", func(s *page.Stats) uint64 { return s.NativePeakReserved }),
	gauge("blocks", "Live blocks.", func(s *page.Stats) uint64 { return s.Blocks }),
	gauge("plan_generation", "Plans activated so far; 0: none serves.",
		func(s *page.Stats) uint64 { return s.PlanGeneration }),
	counter("requests_total", "Allocations asked for.",
		func(s *page.Stats) uint64 { return s.Requests }),
	counter("plan_hits_total", "Requests that a plan served.",
		func(s *page.Stats) uint64 { return s.Hits }),
	counter("plan_misses_total", "Requests that a plan was there for and did not serve.",
		func(s *page.Stats) uint64 { return s.Misses }),
	counter("steps_total", "Step boundaries.", func(s *page.Stats) uint64 { return s.Steps }),
	counter("driver_calls_total", "Calls of the driver.",
		func(s *page.Stats) uint64 { return s.DriverCalls }),
	describe(prometheus.CounterValue, "driver_seconds_total", "Time in calls of the driver.",
		func(d *page.Device) float64 { return float64(d.Now.DriverNS) / 1e9 }),
	describe(prometheus.GaugeValue, "waste_ratio",
		"Share of the peak of reserved memory that no live block needed.",
		func(d *page.Device) float64 { return d.Now.Waste() }),
	describe(prometheus.GaugeValue, "step_seconds",
		"Time of a step in the last second or two; 0: none has ended.",
		func(d *page.Device) float64 { return page.Between(d.Before, d.Now).Step.Seconds() }),
	counter("ooms_total", "Requests refused because memory was out.",
		func(s *page.Stats) uint64 { return s.OOMs }),
	counter("retries_total", "Requests served only after memory was given back.",
		func(s *page.Stats) uint64 { return s.Retries }),
	counter("fallback_total", "Requests that plain driver allocations served.",
		func(s *page.Stats) uint64 { return s.Fallback }),
}

// capacity is told where somebody knows it.
var capacity = describe(prometheus.GaugeValue, "capacity_bytes", "Memory of the device.", nil)

// collector reads the pages when Prometheus asks.
type collector struct {
	read func() []page.Process
	gpus []page.GPU
}

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
	out <- capacity.desc
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, p := range c.read() {
		rank := p.Rank()
		for _, d := range p.Devices {
			labels := []string{strconv.Itoa(p.PID), rank, strconv.Itoa(d.Ordinal)}
			for _, m := range metrics {
				out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&d), labels...)
			}
			if bytes := p.Capacity(c.gpus, d.Ordinal); bytes > 0 {
				out <- prometheus.MustNewConstMetric(capacity.desc, capacity.kind, float64(bytes),
					labels...)
			}
		}
	}
}

// Server answers on the loopback address until it is closed.
type Server struct {
	http *http.Server
	addr net.Addr
}

// Bounds on what clients can make us do: one that sends garbage, or nothing, costs a
// connection for some seconds, and all together cost so many.
const (
	timeout    = 5 * time.Second
	mostHeader = 8 << 10
	atOnce     = 4
	mostOpen   = 32
)

// newest are the connections that are open. One too many ends the oldest, not the new
// one: whoever asks at once is answered, however many others say nothing.
type newest struct {
	mu   sync.Mutex
	open []net.Conn
}

// changed is http.Server's ConnState.
func (n *newest) changed(c net.Conn, to http.ConnState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch to {
	case http.StateNew:
		n.open = append(n.open, c)
		if len(n.open) > mostOpen {
			_ = n.open[0].Close()
			n.open = n.open[1:]
		}
	case http.StateClosed:
		n.open = slices.DeleteFunc(n.open, func(o net.Conn) bool { return o == c })
	}
}

// Serve answers for 127.0.0.1:port with what read returns; port 0 takes a free one. The
// error says that the port is taken, for example.
func Serve(port int, read func() []page.Process) (*Server, error) {
	return Listen("127.0.0.1", port, nil, read)
}

// Listen answers on an address of this machine. Only on a loopback address of IPv4 the kernel tells
// who asks: on others any caller is answered. gpus are for the capacity of devices.
func Listen(address string, port int, gpus []page.GPU, read func() []page.Process) (*Server,
	error) {
	ip := net.ParseIP(address)
	if ip == nil {
		return nil, fmt.Errorf("metrics on %s: no address; name one of this machine's by its numbers, such as 127.0.0.1", address)
	}
	network := "tcp6" // of one family alone: "tcp" would take 0.0.0.0 for both
	if ip.To4() != nil {
		network = "tcp4"
	}
	listener, err := net.Listen(network, net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("metrics on port %d: %w; choose another port, or an address of this machine", port, err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{read, gpus})
	allowed := ours
	if ip.To4() == nil || !ip.IsLoopback() {
		allowed = func(h http.Handler) http.Handler { return h }
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics",
		allowed(promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: atOnce,
			Timeout: timeout})))
	for path, file := range map[string]string{"GET /{$}": index, "GET /grafana.json": Dashboard} {
		mux.Handle(path, allowed(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, file) // a client that hangs up
		})))
	}
	s := &Server{addr: listener.Addr(), http: &http.Server{
		Handler: mux, ReadTimeout: timeout, WriteTimeout: 2 * timeout, IdleTimeout: timeout,
		MaxHeaderBytes: mostHeader,
		ConnState:      new(newest).changed,
		// what clients do wrong is nothing for a training job's standard error
		ErrorLog: log.New(io.Discard, "", 0),
	}}
	go s.http.Serve(listener) // its error is that of Close
	return s, nil
}

// Addr is where it answers, such as 127.0.0.1:29470.
func (s *Server) Addr() string { return s.addr.String() }

// Close ends it; questions that are under way are answered.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.http.Shutdown(ctx)
}
