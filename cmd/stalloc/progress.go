package main

import (
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// delay is how long a command may take before a bar says how far it is, and beat how
// often it is drawn then.
const (
	delay = time.Second
	beat  = 200 * time.Millisecond
)

// share is how finely the bar divides one piece of work.
const share = 1000

// progress is one bar over all the work of a command, drawn for people at a terminal
// alone. A goroutine draws it, so that it moves also while a piece of work cannot say how
// far it is; the rest only notes where it is. A nil progress does nothing.
type progress struct {
	mu    sync.Mutex
	title string
	from  int // pieces of work that were through when the present file began
	done  int // and are now
	at    int // of the present one, in parts of share
	bar   *progressbar.ProgressBar
	shown bool
	quit  chan struct{}
	over  sync.WaitGroup
}

func startProgress(w io.Writer, pieces int) *progress {
	if !forPeople(w) || pieces == 0 {
		return nil
	}
	p := &progress{quit: make(chan struct{})}
	p.bar = progressbar.NewOptions(pieces*share, progressbar.OptionSetWriter(w),
		progressbar.OptionSetWidth(24), progressbar.OptionClearOnFinish())
	p.bar.StartWithoutRender() // its clock
	p.over.Go(p.draw)
	return p
}

func (p *progress) draw() {
	for wait := delay; ; wait = beat {
		select {
		case <-p.quit:
			return
		case <-time.After(wait):
		}
		p.mu.Lock()
		p.shown = true
		p.bar.Describe(p.title)
		_ = p.bar.Set(p.done*share + p.at) // a bar that cannot be drawn is no failure
		_ = p.bar.RenderBlank()
		p.mu.Unlock()
	}
}

// begin names the piece of work that comes next, and returns what tells how far it is.
func (p *progress) begin(title string) func(done, total int) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.title, p.at = title, 0
	return func(done, total int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.at = share * done / max(total, 1)
	}
}

// advance says that so many pieces of work are through since start.
func (p *progress) advance(pieces int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.at = p.from+pieces, 0
}

// startAt says where the next call of advance counts from.
func (p *progress) startAt(pieces int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.from, p.done, p.at = pieces, pieces, 0
}

// hide takes the bar away, for what is printed in its place.
func (p *progress) hide() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		_ = p.bar.Clear()
	}
}

func (p *progress) stop() {
	if p == nil {
		return
	}
	close(p.quit)
	p.over.Wait()
	p.hide()
}
