// Command load measures the program's own server for a minute: it starts 'ferrumkv serve' with the embedded model, sends it
// what 'ferrumkv load' generates, and stops it.
//
//	go run ./scripts/load bin/ferrumkv build
//
// The report is in build/load.json and, with plots, in build/load.html.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run ./scripts/load PROGRAM FOLDER")
		os.Exit(2)
	}
	// Ctrl-C reaches the two programs, too; this one waits for them.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	if err := measure(os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// A minute of users whose prompts fit the embedded model's context of 1,024 tokens.
var workload = []string{"--rate", "8", "--duration", "1m", "--scale", "0.1", "--max-prompt", "800", "--max-tokens", "100"}

// measure measures a program's server, and says where the report is.
func measure(program, folder string, out io.Writer) (err error) {
	s, err := start(program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.ready(time.Minute); err != nil {
		return err
	}
	page, object := filepath.Join(folder, "load.html"), filepath.Join(folder, "load.json")
	load := exec.Command(program, append([]string{"load", "--url", s.url, "--json", "--html", page}, workload...)...)
	load.Stderr = os.Stderr
	report, err := load.Output()
	if len(report) > 0 {
		err = errors.Join(err, os.WriteFile(object, report, 0o644), summarize(out, report))
		fmt.Fprintf(out, "%s has all figures, %s plots of them\n", object, page)
	}
	return err
}

// server is a process of the program that serves.
type server struct {
	url   string
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process ended
	err   error         // why, from then on
}

func start(program string) (*server, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		return nil, err
	}
	s := &server{url: "http://" + address, ended: make(chan struct{})}
	s.cmd = exec.Command(program, "serve", "--listen", address, "--log-level", "warn")
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	return s, nil
}

// ready waits until the server answers.
func (s *server) ready(timeout time.Duration) error {
	client := http.Client{Timeout: time.Second}
	for until := time.Now().Add(timeout); time.Now().Before(until); {
		if reply, err := client.Get(s.url + "/readyz"); err == nil {
			reply.Body.Close()
			if reply.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.ended:
			return errors.New("the server ended before it was ready")
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("the server is not ready after %s", timeout)
}

// stop has the server end its answers, and then ends it.
func (s *server) stop() error {
	if s.cmd.Process.Signal(syscall.SIGTERM) != nil { // which Windows does not have
		_ = s.cmd.Process.Kill() // it may have ended by itself
	}
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		return errors.Join(errors.New("the server did not end after SIGTERM"), s.cmd.Process.Kill())
	}
	if failed := (*exec.ExitError)(nil); errors.As(s.err, &failed) && failed.ExitCode() != 128+int(syscall.SIGTERM) && failed.Exited() {
		return fmt.Errorf("the server: %w", s.err)
	}
	return nil
}

// summarize prints what of a report fits three lines.
func summarize(out io.Writer, report []byte) error {
	type times struct{ P50, P99 float64 }
	var r struct {
		Succeeded, Failed int
		TTFT, TPOT        times
		HitRate           *float64 `json:"hit_rate"`
		Possible          float64  `json:"possible_hit_rate"`
		Goodput           float64  `json:"goodput_per_second"`
		Objective         string
	}
	if err := json.NewDecoder(bytes.NewReader(report)).Decode(&r); err != nil {
		return fmt.Errorf("the report: %w", err)
	}
	const ms = 1000
	fmt.Fprintf(out, "%d requests succeeded, %d failed; %.3g requests/s met %s\n", r.Succeeded, r.Failed, r.Goodput, r.Objective)
	fmt.Fprintf(out, "first token %.1f ms, p99 %.1f ms; per token %.2f ms, p99 %.2f ms\n", ms*r.TTFT.P50, ms*r.TTFT.P99, ms*r.TPOT.P50, ms*r.TPOT.P99)
	hits := "not reported"
	if r.HitRate != nil {
		hits = fmt.Sprintf("%.1f%%", 100**r.HitRate)
	}
	fmt.Fprintf(out, "hit rate %s, %.1f%% possible\n", hits, 100*r.Possible)
	return nil
}
