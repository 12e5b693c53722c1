package chat

import (
	"fmt"
	"os"
	"testing"
)

// The test binary renders for Render, as the program does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Apart {
		if err := Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
