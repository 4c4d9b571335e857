package score

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a simulator that runs.
type process struct {
	cmd   *exec.Cmd
	in    *os.File
	w     *bufio.Writer
	out   *os.File
	r     *bufio.Reader
	errs  tail
	ended chan struct{}
	lines int // read
	limit time.Duration
}

const (
	longest = 4 << 10 // of an answer
	grace   = time.Second
)

// start starts a simulator, in a process group of its own.
func start(ctx context.Context, command []string, limit time.Duration) (*process, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	p := &process{in: in, out: out, w: bufio.NewWriterSize(in, 64<<10),
		r: bufio.NewReaderSize(out, longest), ended: make(chan struct{}), limit: limit}
	p.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirIn, theirOut, &p.errs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = p.kill
	p.cmd.WaitDelay = grace
	err = p.cmd.Start()
	err = errors.Join(err, theirIn.Close(), theirOut.Close())
	if err != nil {
		err = fmt.Errorf("the simulator does not start: %w; give its command line after --", err)
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	go func() {
		_ = p.cmd.Wait() // its state is kept
		close(p.ended)
	}()
	return p, nil
}

func (p *process) kill() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// tell sends a line. It may wait for the simulator to read.
func (p *process) tell(line []byte) error {
	if p.w.Available() <= len(line) {
		if err := p.in.SetWriteDeadline(time.Now().Add(p.limit)); err != nil {
			return err
		}
	}
	_, err := p.w.Write(line)
	if err == nil {
		err = p.w.WriteByte('\n')
	}
	return p.explain(err, "reads nothing")
}

// ask reads the answer to what was told.
func (p *process) ask() (string, error) {
	deadline := time.Now().Add(p.limit)
	if err := errors.Join(p.in.SetWriteDeadline(deadline),
		p.out.SetReadDeadline(deadline)); err != nil {
		return "", err
	}
	if err := p.explain(p.w.Flush(), "reads nothing"); err != nil {
		return "", err
	}
	line, err := p.r.ReadSlice('\n')
	p.lines++
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("expected an answer of at most %d bytes, got %.40q and more", longest,
			line)
	case err == io.EOF && len(line) > 0:
		return "", fmt.Errorf("expected a whole line, got %.40q and the end", line)
	case err != nil:
		return "", p.explain(err, "does not answer")
	}
	return strings.TrimSuffix(string(line[:len(line)-1]), "\r"), nil
}

// explain turns the failure of a pipe into what happened to the simulator.
func (p *process) explain(err error, doing string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the simulator %s for %v: --timeout gives it longer%s", doing, p.limit,
			p.errs.said())
	}
	select {
	case <-p.ended:
		return fmt.Errorf("the simulator has ended, %v%s", p.cmd.ProcessState, p.errs.said())
	case <-time.After(grace):
		return fmt.Errorf("the simulator has closed its standard input or output%s", p.errs.said())
	}
}

// end waits for the simulator to exit after q. It returns an error unless it exits as it should.
func (p *process) end() error {
	defer p.abandon()
	if err := p.in.Close(); err != nil {
		return err
	}
	if err := p.out.SetReadDeadline(time.Now().Add(p.limit)); err != nil {
		return err
	}
	line, err := p.r.ReadSlice('\n')
	switch {
	case len(line) > 0:
		return fmt.Errorf("more answers than questions: %.40q", line)
	case err != io.EOF:
		return p.explain(err, "does not end after q")
	}
	select {
	case <-p.ended:
	case <-time.After(p.limit):
		return fmt.Errorf("the simulator does not end after q for %v", p.limit)
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("the simulator ended with %v after q%s", p.cmd.ProcessState, p.errs.said())
	}
	return nil
}

// abandon kills the simulator and all processes that it has started.
func (p *process) abandon() {
	select {
	case <-p.ended: // its number may be another's by now
	default:
		_ = p.kill()
	}
	_, _ = p.in.Close(), p.out.Close()
	<-p.ended
}

// tail keeps the last of what is written.
type tail struct {
	lock sync.Mutex
	text []byte
}

const tailSize = 500

func (t *tail) Write(b []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.text = append(t.text, b[max(0, len(b)-tailSize):]...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(b), nil
}

func (t *tail) said() string {
	t.lock.Lock()
	defer t.lock.Unlock()
	if said := strings.TrimSpace(string(t.text)); said != "" {
		return fmt.Sprintf("; it said %q", said)
	}
	return ""
}
