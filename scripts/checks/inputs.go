package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// inputs finds what checks depend on, and asks for nothing twice: git and go list take seconds.
type inputs struct {
	mu       sync.Mutex
	folders  map[string][2][]string // of packages and tags
	versions map[string]string      // of tools
}

func newInputs() *inputs {
	return &inputs{folders: map[string][2][]string{}, versions: map[string]string{}}
}

// chosen are variables by which a person has tests try less, more or something else.
var chosen = []string{"FERRUM_TEST_GRID", "FERRUM_TEST_MAXWORK", "FERRUM_TEST_EVERY", "FERRUM_TEST_DEVICE", "FERRUM_SIMT_SEED", "RAPID_CHECKS", "GOTESTFLAGS"}

// flags are those of go in every check, in the place of a person's. A stamp of the commit is of no
// use in a test, and git refuses to give it where the checkout is another user's.
const flags = "GOFLAGS=-buildvcs=false"

// modules are the folders of the modules of the checkout's workspace, but for the library's, which is the root.
var modules = []string{"cmd", "scripts"}

// workspace is the GOWORK setting of a check: off where all its packages are the library's, so that the requirements of the other
// modules are no input of it.
func (c check) workspace() string {
	if c.when == onChange && !slices.ContainsFunc(c.packages, func(p string) bool { return moduleOf(p) != "." }) {
		return "GOWORK=off"
	}
	return "GOWORK="
}

// moduleOf is the folder of the module that a package is in, named as the go command does.
func moduleOf(pkg string) string {
	for _, m := range modules {
		if strings.HasPrefix(pkg, "./"+m+"/") {
			return m
		}
	}
	return "."
}

// repositoryModules begins the path of each module here but the root.
const repositoryModules = "github.com/ferrumkv/ferrumkv/"

// noInputs are files in folders of packages that change nothing of what these do: go.work.sum decides no version.
var noInputs = []string{":(exclude,glob)**/*.md", ":(exclude)Makefile", ":(exclude)go.work.sum"}

// hash is of everything in the repository that a check depends on, as it lies there now, and
// of the chosen variables that are set. Files of noInputs do not count. A check that names no inputs
// depends on all files, documents among them.
func (in *inputs) hash(c check) (string, error) {
	specs := slices.Concat([]string{"go.mod", "go.sum"}, noInputs, c.paths)
	if c.workspace() != "GOWORK=off" {
		specs = append(specs, "go.work")
		for _, m := range modules {
			specs = append(specs, m+"/go.mod", m+"/go.sum")
		}
	}
	if len(c.packages) == 0 && len(c.paths) == 0 {
		specs = []string{".", ":(exclude).ci/passed"}
	}
	for _, word := range c.command {
		if strings.HasPrefix(word, "scripts/") {
			specs = append(specs, word)
		}
	}
	own, imported, err := in.packageFolders(c)
	if err != nil {
		return "", err
	}
	files, err := tracked(append(specs, globs(own)...))
	if err != nil {
		return "", err
	}
	if len(imported) > 0 {
		more, err := tracked(append(globs(imported), noInputs...))
		if err != nil {
			return "", err
		}
		more = slices.DeleteFunc(more, func(f string) bool { return strings.HasSuffix(f, "_test.go") }) // which this check does not compile
		files = slices.Compact(slices.Sorted(slices.Values(append(files, more...))))
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q\n", c.command, c.env, c.tags)
	for _, name := range chosen {
		if value := os.Getenv(name); value != "" {
			fmt.Fprintf(sum, "%s=%s\n", name, value)
		}
	}
	for _, f := range files {
		if strings.HasSuffix(f, "/") { // another repository, or a worktree of this one
			continue
		}
		content, err := os.ReadFile(f)
		if os.IsNotExist(err) { // deleted, and not yet committed
			continue
		}
		if err != nil {
			return "", err
		}
		if name := filepath.Base(f); name == "go.mod" || name == "go.sum" {
			content = foreign(content)
		}
		fmt.Fprintf(sum, "%x %s\n", sha256.Sum256(content), f)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16]), nil
}

// foreign is go.mod or go.sum without the lines that name a version of a module of this
// repository: go.work has the folder in its place, and the files there count.
func foreign(content []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(content) {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte(repositoryModules)) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// tracked is the files that git knows or would take in, sorted.
func tracked(specs []string) ([]string, error) {
	out, err := output("git", append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, specs...)...)
	if err != nil {
		return nil, err
	}
	files := strings.FieldsFunc(out, func(r rune) bool { return r == 0 })
	slices.Sort(files)
	return slices.Compact(files), nil
}

// globs are the files in folders, and their test data, for git.
func globs(folders []string) (specs []string) {
	for _, f := range folders {
		specs = append(specs, ":(glob)"+f+"/*", f+"/testdata")
	}
	return specs
}

// packageFolders is the folders of a check's packages, and of those in this repository that
// they, and their tests, import.
func (in *inputs) packageFolders(c check) (own, imported []string, err error) {
	if len(c.packages) == 0 {
		return nil, nil, nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	key := fmt.Sprint(c.packages, c.except, c.tags)
	if known, ok := in.folders[key]; ok {
		return known[0], known[1], nil
	}
	args := append([]string{"list", "-deps", "-test", "-tags", c.tags, "-f", "{{with .Module}}{{if or .Main .Replace}}{{$.DepOnly}}\t{{$.Dir}}{{end}}{{end}}"}, c.packages...)
	out, err := outputIn(c.workspace(), "go", args...)
	if err != nil {
		return nil, nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, nil, err
	}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		depends, dir, ok := strings.Cut(line, "\t")
		if !ok { // of another module
			continue
		}
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return nil, nil, err
		}
		if !filepath.IsLocal(rel) { // of a module that another one replaces
			continue
		}
		if rel = filepath.ToSlash(rel); depends == "true" || slices.Contains(c.except, "./"+rel) {
			imported = append(imported, rel)
		} else {
			own = append(own, rel)
		}
	}
	in.folders[key] = [2][]string{own, imported}
	return own, imported, nil
}

// toolVersion is what a tool says of itself, in a line; empty where it is not installed.
func (in *inputs) toolVersion(tool string) string {
	in.mu.Lock()
	defer in.mu.Unlock()
	if v, ok := in.versions[tool]; ok {
		return v
	}
	args := []string{"--version"}
	if tool == "go" {
		args = []string{"version"}
	}
	command := tool
	if tool == "nvcc" { // in PATH, or in a folder of its own; one that is too old is not used
		folder, err := output("scripts/unpack-cuda-toolkit", "installed")
		if folder = strings.TrimSpace(folder); err != nil || folder == "" {
			return ""
		}
		command = filepath.Join(folder, tool)
	}
	out, err := output(command, args...)
	v := ""
	if err == nil {
		lines := strings.Split(strings.TrimSpace(out), "\n")
		v = lines[0]
		if tool == "nvcc" { // its first line has no version
			v = lines[len(lines)-1]
		}
	}
	v = strings.Join(strings.Fields(v), " ")
	if v != "" {
		in.versions[tool] = v // one that is missing may be installed meanwhile
	}
	return v
}

func output(name string, args ...string) (string, error) { return outputIn("GOWORK=", name, args...) }

// outputIn is what a command prints in a workspace of go.
func outputIn(workspace, name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), workspace)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args[:min(2, len(args))], " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}
