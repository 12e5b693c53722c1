package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"

	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// target is what files are compiled for, and how.
type target struct {
	options       []string // what nvcc gets when it compiles a file to PTX, but for the architecture
	architectures []string // sm_90: machine code, compute_90: PTX
}

// embedded is the target of the kernels that programs have in them: machine code of the two generations of data
// centre GPUs, which those of the same generations run, too; and PTX, which drivers compile for what comes after.
var embedded = target{
	options:       []string{"-O3", "-std=c++17"},
	architectures: []string{"sm_80", "sm_90", "compute_90"},
}

func (t target) machines() []string { return manifest.Machines(t.architectures) }

// virtual is the architecture whose PTX becomes machine code for arch: sm_80 is made of compute_80.
func virtual(arch string) string {
	_, number, _ := strings.Cut(arch, "_")
	return "compute_" + number
}

var nvccVersion = regexp.MustCompile(`V(\d+\.\d+\.\d+)`)

// compiler is the name and version of nvcc.
func compiler() (string, error) {
	out, err := output("", "nvcc", "--version")
	if err != nil {
		return "", err
	}
	m := nvccVersion.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("nvcc --version names no version: %s", out)
	}
	return "nvcc " + string(m[1]), nil
}

// output runs a tool of the toolkit and returns what it prints. The error has what it
// printed about it.
func output(dir, tool string, args ...string) ([]byte, error) {
	out, _, err := outputs(dir, tool, args...)
	return out, err
}

// outputs is output which returns also what the tool remarks on stderr.
func outputs(dir, tool string, args ...string) (printed, remarks []byte, err error) {
	cmd := exec.Command(tool, args...)
	cmd.Dir = dir
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		if _, missing := exec.LookPath(tool); missing != nil {
			return nil, nil, fmt.Errorf("%s is not in PATH: scripts/unpack-cuda-toolkit unpacks the CUDA toolkit on Debian and prints its folder; zstd is a package", tool)
		}
		return nil, nil, fmt.Errorf("%s: %w\n%s%s", cmd, err, out.Bytes(), problems.Bytes())
	}
	return out.Bytes(), problems.Bytes(), nil
}

// each calls f for 0 to n-1, jobs at a time.
func each(n, jobs int, f func(i int)) {
	var wait sync.WaitGroup
	slots := make(chan struct{}, max(jobs, 1))
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			f(i)
			<-slots
		})
	}
	wait.Wait()
}
