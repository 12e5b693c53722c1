package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	experiments "github.com/ferrumkv/ferrumkv/internal/pack"
)

// packSeconds is how long the variants of a pack are compared: what one call of ten minutes leaves beside the transfer, the
// start, the counters and what else is measured.
const packSeconds = 400

// writePack writes what is asked of the variants of these names, or of all, whose folders lie in variants beside the file.
func writePack(dir, file string, names []string) error {
	all, err := readVariants(filepath.Join(dir, "variants"))
	if err != nil {
		return err
	}
	chosen, err := choose(all, names)
	if err != nil {
		return err
	}
	commit, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return err
	}
	p := experiments.Pack{Commit: strings.TrimSpace(string(commit)), BudgetSeconds: packSeconds}
	for _, v := range chosen {
		p.Variants = append(p.Variants, v.Variant)
	}
	text, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return err
	}
	_, err = experiments.Read(file)
	return err
}
