package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The test binary is the program, too: what it does is named by a variable.
const as = "LOAD_TEST_AS"

func TestMain(m *testing.M) {
	how := os.Getenv(as)
	switch {
	case how == "":
		os.Exit(m.Run())
	case os.Args[1] == "load" && how != "load fails":
		page := os.Args[slices.Index(os.Args, "--html")+1]
		if reply, err := http.Get(os.Args[slices.Index(os.Args, "--url")+1] + "/readyz"); err != nil || reply.StatusCode != http.StatusOK {
			os.Exit(3)
		}
		_ = os.WriteFile(page, nil, 0o600)
		fmt.Println(`{"succeeded": 480, "failed": 1, "ttft": {"p50": 0.0123, "p99": 9.7}, "tpot": {"p50": 0.001, "p99": 0.002}, "hit_rate": null, "possible_hit_rate": 0.5, "goodput_per_second": 7.5, "objective": "ttft=1s"}`)
	case os.Args[1] == "serve" && how != "serve fails":
		serve(os.Args[slices.Index(os.Args, "--listen")+1])
	default:
		os.Exit(4)
	}
}

// serve is ready at the second question, and ends as a program does that SIGTERM ends.
func serve(address string) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	asked := 0
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	go http.ListenAndServe(address, nil)
	<-ended
	os.Exit(143)
}

func run(t *testing.T, how string) (string, string, error) {
	t.Setenv(as, how)
	program, err := os.Executable()
	require.NoError(t, err)
	folder := t.TempDir()
	var out strings.Builder
	err = measure(program, folder, &out)
	return folder, out.String(), err
}

func TestMeasure(t *testing.T) {
	folder, out, err := run(t, "program")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(folder, "load.html"))
	require.Equal(t, `480 requests succeeded, 1 failed; 7.5 requests/s met ttft=1s
first token 12.3 ms, p99 9700.0 ms; per token 1.00 ms, p99 2.00 ms
hit rate not reported, 50.0% possible
`, out[:strings.LastIndex(strings.TrimSpace(out), "\n")+1])
	report, err := os.ReadFile(filepath.Join(folder, "load.json"))
	require.NoError(t, err)
	require.Contains(t, string(report), `"succeeded": 480`)
}

func TestMeasureFails(t *testing.T) {
	_, _, err := run(t, "serve fails")
	require.ErrorContains(t, err, "the server ended before it was ready")
	require.ErrorContains(t, err, "the server: exit status 4")
	_, out, err := run(t, "load fails")
	require.EqualError(t, err, "exit status 4")
	require.Empty(t, out)
}
