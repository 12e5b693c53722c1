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

// architectures the kernels are compiled for: machine code of the two generations of
// data centre GPUs, and PTX that drivers compile for all later and in-between ones.
var architectures = []string{"sm_80", "sm_90", "compute_80"}

func machines() []string { return manifest.Machines(architectures) }

// options are what nvcc gets before -o.
func options() []string {
	o := []string{"-O3", "-std=c++17"}
	for _, a := range architectures {
		_, number, _ := strings.Cut(a, "_")
		o = append(o, "-gencode", "arch=compute_"+number+",code="+a)
	}
	return append(o, "-fatbin", "-Xfatbin", "-compress-all")
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
	cmd := exec.Command(tool, args...)
	cmd.Dir = dir
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		if _, missing := exec.LookPath(tool); missing != nil {
			return nil, fmt.Errorf("%s is not installed: scripts/cuda-toolkit installs the CUDA toolkit on Debian", tool)
		}
		return nil, fmt.Errorf("%s: %w\n%s%s", cmd, err, out.Bytes(), problems.Bytes())
	}
	return out.Bytes(), nil
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
