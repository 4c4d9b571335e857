package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// screen is the terminal's other screen, which leaves what was on the first as it was.
type screen struct {
	out   io.Writer
	keys  chan byte     // what is typed; nil where nobody can type
	began *unix.Termios // of the input, to be set again
}

// What a terminal obeys.
const (
	enterScreen = "\033[?1049h\033[?25l" // the other screen, without a cursor
	leaveScreen = "\033[?25h\033[?1049l"
	home        = "\033[H"
	clearLine   = "\033[K"
	clearBelow  = "\033[J"
)

// openScreen shows the other screen, and has keys come one by one where the standard input is a
// terminal. Control-C goes on to interrupt.
func openScreen(out io.Writer) *screen {
	s := &screen{out: out}
	input := int(os.Stdin.Fd())
	if began, err := unix.IoctlGetTermios(input, unix.TCGETS); err == nil {
		now := *began
		now.Lflag &^= unix.ICANON | unix.ECHO
		now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
		if unix.IoctlSetTermios(input, unix.TCSETS, &now) == nil {
			s.began, s.keys = began, make(chan byte)
			go s.read()
		}
	}
	io.WriteString(out, enterScreen)
	return s
}

// read passes keys on until the program ends.
func (s *screen) read() {
	key := make([]byte, 1)
	for {
		if n, err := os.Stdin.Read(key); n == 0 || err != nil {
			return
		}
		s.keys <- key[0]
	}
}

// show replaces what is shown, no more of it than there is room for above the last line.
func (s *screen) show(text, last string) error {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if file, ok := behind(s.out).(*os.File); ok {
		if _, height, err := term.GetSize(int(file.Fd())); err == nil && height > 1 &&
			len(lines) >= height {
			lines = lines[:height-1]
		}
	}
	_, err := io.WriteString(s.out, home+strings.Join(append(lines, last),
		clearLine+"\n")+clearLine+clearBelow)
	return err
}

// close brings the first screen back.
func (s *screen) close() {
	io.WriteString(s.out, leaveScreen)
	if s.began != nil {
		// a terminal that is gone needs nothing
		_ = unix.IoctlSetTermios(int(os.Stdin.Fd()), unix.TCSETS, s.began)
	}
}
