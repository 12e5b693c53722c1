package main

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"
)

// secretBytes is how long what seals files is.
const secretBytes = 32

// secretFlag names the file of a secret.
type secretFlag struct{ file string }

func (f *secretFlag) register(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.file, "secret", "", "`FILE` with 32 random bytes, which no one else may read: "+usage)
}

// read returns the secret; nil: none is given.
func (f *secretFlag) read() (secret []byte, err error) {
	if f.file == "" {
		return nil, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("--secret %s: %w", f.file, err)
		}
	}()
	file, err := os.Open(f.file)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("others may use it (mode %04o): chmod 600 it", mode)
	}
	secret, err = io.ReadAll(io.LimitReader(file, secretBytes+1))
	if err == nil && len(secret) != secretBytes {
		err = fmt.Errorf("need %d random bytes, such as those of: head -c %[1]d /dev/urandom", secretBytes)
	}
	return secret, err
}
