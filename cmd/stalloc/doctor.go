package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// newDoctor hands over to the Python package: what training will meet there, the PyTorch
// and the libraries, is what is to be looked at.
func newDoctor() *cobra.Command {
	var python string
	var device int
	var json bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether stalloc can serve on this machine",
		Long: `Doctor checks the driver, the GPUs and their virtual memory management, glibc,
PyTorch, the libraries, the settings and who holds the devices' memory, and
allocates one block. Each line is ok, or says what to do.

It runs 'python3 -m stalloc.doctor': name the Python that trains with --python.

Exit status: 0 if stalloc can serve, 1 if something has to be fixed first.`,
		Example: `  stalloc doctor
  stalloc doctor --python ~/envs/train/bin/python --device 1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			args := []string{"-c", doctor, fmt.Sprintf("--device=%d", device)}
			if json {
				args = append(args, "--json")
			}
			child := exec.CommandContext(cmd.Context(), python, args...)
			child.Stdout, child.Stderr, child.Env = behind(cmd.OutOrStdout()), cmd.ErrOrStderr(),
				withPackage(os.Environ())
			err := child.Run()
			var exit *exec.ExitError
			switch {
			case err == nil || cmd.Context().Err() != nil:
				return cmd.Context().Err()
			case errors.As(err, &exit) && exit.ExitCode() == exitFailed:
				return errFailed // it has said why
			case errors.As(err, &exit) && exit.ExitCode() == exitAbsent:
				err = errors.New("it has no stalloc")
			case errors.As(err, &exit) && exit.ExitCode() == exitNamesake:
				return fmt.Errorf("--python %s: its stalloc is another package, such as STAlloc's research code: take that off PYTHONPATH, or keep the two in environments of their own", python)
			}
			return fmt.Errorf("--python %s: %w; name a Python 3.9 or later that has stalloc's wheel: make wheel in the sources, then %s -m pip install dist/stalloc-*.whl", python, err, python)
		},
	}
	f := cmd.Flags()
	f.StringVar(&python, "python", "python3", "the `interpreter` that trains")
	f.IntVar(&device, "device", 0, "the CUDA device to try")
	f.BoolVar(&json, "json", false, "print one JSON object a line: status, subject, text, remedy")
	return cmd
}

// doctor tells a Python without the package, or with another one of its name, from one whose
// doctor finds something. What is of that name is looked at and not imported.
const doctor = `import importlib.util, os, sys
spec = importlib.util.find_spec("stalloc")
sys.exit(123) if spec is None else None
folders = spec.submodule_search_locations or []
sys.exit(124) if not any(os.path.exists(os.path.join(f, "doctor.py")) for f in folders) else None
from stalloc import doctor
sys.exit(doctor.main())`

const (
	exitAbsent   = 123
	exitNamesake = 124
)

// newPython hands over to a module of the Python package, all options included. The package's
// own command does not come here: it is in the right interpreter already.
func newPython(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:   name + " [arguments]",
		Short: short,
		Long: short + ", as 'python3 -m stalloc." + name + "' does. 'stalloc " +
			name + " --help' lists the options.",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			python, err := exec.LookPath("python3")
			if err == nil {
				args = append([]string{python, "-m", "stalloc." + name}, args...)
				err = syscall.Exec(python, args, withPackage(os.Environ()))
			}
			return fmt.Errorf("python3: %w; it needs a Python 3.9 or later", err)
		},
	}
}

// withPackage lets the command of a source tree find the package beside it, unless
// another one is installed.
func withPackage(env []string) []string {
	self, err := os.Executable()
	if err != nil {
		return env
	}
	tree := filepath.Join(filepath.Dir(self), "..", "python")
	if _, err := os.Stat(filepath.Join(tree, "stalloc", "doctor.py")); err != nil {
		return env
	}
	path := tree
	if set := os.Getenv("PYTHONPATH"); set != "" {
		path = set + string(os.PathListSeparator) + tree
	}
	return append(env, "PYTHONPATH="+path)
}
