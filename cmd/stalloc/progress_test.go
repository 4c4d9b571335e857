package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal returns both ends of a pseudo terminal: what is written to tty is read from
// the other.
func terminal(t *testing.T) (other, tty *os.File) {
	t.Helper()
	other, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	if err := unix.IoctlSetPointerInt(int(other.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(other.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return other, tty
}

// TestProgress: on a terminal a bar says what is done, and how far; elsewhere nothing does.
func TestProgress(t *testing.T) {
	var file bytes.Buffer
	if p := startProgress(&file, 3); p != nil {
		t.Fatal("a bar is drawn where nobody looks")
	}
	other, tty := terminal(t)
	p := startProgress(tty, 4)
	p.startAt(1)
	p.begin("tiny, native")(5, 10)
	seen, part := "", make([]byte, 256)
	for !strings.Contains(seen, "tiny, native") || !strings.Contains(seen, "37%") {
		n, err := other.Read(part)
		if err != nil {
			t.Fatalf("%v after %q", err, seen)
		}
		seen += string(part[:n])
	}
	p.stop()
}

// TestColours: the best cell is coloured on a terminal, unless NO_COLOR says otherwise.
func TestColours(t *testing.T) {
	_, tty := terminal(t)
	t.Setenv("NO_COLOR", "")
	os.Unsetenv("NO_COLOR")
	if !coloured(tty) || coloured(new(bytes.Buffer)) {
		t.Error("colour belongs on a terminal, and there alone")
	}
	t.Setenv("NO_COLOR", "1")
	if coloured(tty) {
		t.Error("NO_COLOR is not respected")
	}
}
