package nvml

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Program is the name of the program that reads.
const Program = "ferrumkv-nvml"

// ErrNotInstalled is what Read returns without the program.
var ErrNotInstalled = errors.New(Program + " is not installed: go install ./cmd/" + Program + " in a checkout of ferrumkv")

// Read is one reading a device of this machine; none where there is no management
// library. It starts the program that lies beside this one, or that of the path, and
// ends it with ctx. An error that is not ErrNotInstalled is the program's.
func Read(ctx context.Context) ([]Reading, error) {
	path, err := find()
	if err != nil {
		return nil, err
	}
	var report bytes.Buffer
	cmd := exec.CommandContext(ctx, path)
	cmd.Stderr, cmd.WaitDelay = &report, time.Second
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", Program, ctx.Err())
	case err != nil && report.Len() > 0:
		return nil, errors.New(strings.TrimSpace(report.String())) // names the program
	case err != nil:
		return nil, fmt.Errorf("%s: %w", Program, err)
	}
	var readings []Reading
	if err := json.Unmarshal(out, &readings); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return readings, nil
}

// find is the path of the program.
func find() (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), Program)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(Program)
	if err != nil {
		return "", ErrNotInstalled
	}
	return path, nil
}
