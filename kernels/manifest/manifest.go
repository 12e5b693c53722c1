// Package manifest is the text file that says what the compiled kernels are: written
// by scripts/kernels, read by the checks and by the backend that launches them.
package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxImage is more bytes than any fat binary has.
const maxImage = 1 << 26

// Manifest describes the compiled kernels. Its text is one line an entry, a keyword
// and words: what a diff of it shows is what changed. Lists are sorted by name.
type Manifest struct {
	ABI           int      // FKV_ABI_VERSION of the header they were compiled with
	Compiler      string   // "nvcc 12.4.131"
	Compressor    string   // "zstd 1.5.4"
	Options       []string // of the compiler
	Architectures []string // "sm_80": machine code, "compute_90": PTX
	Sources       []Source
	Units         []Unit
	Archives      []Archive
	Families      []Family
	Kernels       []Kernel
}

// Source is a file that kernels were compiled from.
type Source struct {
	Path string // relative to the folder of the MANIFEST
	Sum  string // SHA-256, in hexadecimal
}

// Unit is a file that was given to the compiler.
type Unit struct {
	File    string   // "attend_decode.cu"
	Sources []string // paths of all files it was compiled from
}

// Archive is a compressed file beside the MANIFEST: the fat binaries of its families, in their order.
type Archive struct {
	Name string // "attend_64_64": of the file attend_64_64.zst
	Sum  string // SHA-256 of the file, in hexadecimal
	Base string // the archive whose content is its dictionary; "" for none
}

// Family is one fat binary: the kernels that are loaded together.
type Family struct {
	Name    string
	File    string // of the Unit that it was compiled from
	Archive string // that it is in
	Size    int    // bytes, a multiple of 8: the next image begins where drivers may read words
	Sum     string // SHA-256 of the fat binary, in hexadecimal
}

// Kernel is one entry point and the launch it was compiled for.
type Kernel struct {
	Symbol    string
	Family    string
	Threads   int   // of a block
	Shared    int   // bytes of dynamic shared memory
	Registers []int // of a thread, by architecture with machine code
}

// Find returns the kernel of that symbol. It does not allocate.
func (m *Manifest) Find(symbol string) (Kernel, bool) {
	i, ok := slices.BinarySearchFunc(m.Kernels, symbol, func(k Kernel, s string) int { return strings.Compare(k.Symbol, s) })
	if !ok {
		return Kernel{}, false
	}
	return m.Kernels[i], true
}

// Family returns the family of that name, and the byte of its archive's content at which it begins.
func (m *Manifest) Family(name string) (f Family, at int, ok bool) {
	i, ok := slices.BinarySearchFunc(m.Families, name, func(f Family, s string) int { return strings.Compare(f.Name, s) })
	if !ok {
		return Family{}, 0, false
	}
	for _, other := range m.Families[:i] {
		if other.Archive == m.Families[i].Archive {
			at += other.Size
		}
	}
	return m.Families[i], at, true
}

// Archive returns the archive of that name.
func (m *Manifest) Archive(name string) (Archive, bool) {
	i, ok := slices.BinarySearchFunc(m.Archives, name, func(a Archive, s string) int { return strings.Compare(a.Name, s) })
	if !ok {
		return Archive{}, false
	}
	return m.Archives[i], true
}

// Bytes is the size of an archive's content.
func (m *Manifest) Bytes(archive string) (size int) {
	for _, f := range m.Families {
		if f.Archive == archive {
			size += f.Size
		}
	}
	return size
}

// Machines are the architectures that have machine code, in their order.
func Machines(architectures []string) []string {
	var machines []string
	for _, a := range architectures {
		if strings.HasPrefix(a, "sm_") {
			machines = append(machines, a)
		}
	}
	return machines
}

// String is the manifest's text; Parse reads it.
func (m *Manifest) String() string {
	var b strings.Builder
	b.WriteString("# What make kernels-cuda made of the sources in this folder.\n")
	fmt.Fprintf(&b, "abi %d\ncompiler %s\ncompressor %s\n", m.ABI, m.Compiler, m.Compressor)
	fmt.Fprintf(&b, "options %s\n", strings.Join(m.Options, " "))
	fmt.Fprintf(&b, "architectures %s\n", strings.Join(m.Architectures, " "))
	b.WriteString("\n# source: path, SHA-256\n")
	for _, s := range m.Sources {
		fmt.Fprintf(&b, "source %s %s\n", s.Path, s.Sum)
	}
	b.WriteString("\n# unit: file, what it was compiled from\n")
	for _, u := range m.Units {
		fmt.Fprintf(&b, "unit %s %s\n", u.File, strings.Join(u.Sources, " "))
	}
	b.WriteString("\n# archive: name, SHA-256 of its .zst, archive that is its dictionary\n")
	for _, a := range m.Archives {
		b.WriteString(strings.TrimSuffix("archive "+a.Name+" "+a.Sum+" "+a.Base, " ") + "\n")
	}
	b.WriteString("\n# family: name, unit, archive, bytes and SHA-256 of its fat binary\n")
	for _, f := range m.Families {
		fmt.Fprintf(&b, "family %s %s %s %d %s\n", f.Name, f.File, f.Archive, f.Size, f.Sum)
	}
	b.WriteString("\n# kernel: symbol, family, threads a block, bytes of dynamic shared memory,\n# registers a thread for each architecture with machine code\n")
	for _, k := range m.Kernels {
		fmt.Fprintf(&b, "kernel %s %s %d %d", k.Symbol, k.Family, k.Threads, k.Shared)
		for _, r := range k.Registers {
			fmt.Fprintf(&b, " %d", r)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Parse reads a manifest's text. An entry that is incomplete, out of order, there
// twice, or that names a family or source that is not listed is an error.
func Parse(text string) (*Manifest, error) {
	m := &Manifest{}
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if err := m.entry(words[0], words[1:]); err != nil {
			return nil, fmt.Errorf("kernels: MANIFEST line %d: %w", i+1, err)
		}
	}
	if err := m.complete(); err != nil {
		return nil, fmt.Errorf("kernels: MANIFEST: %w", err)
	}
	return m, nil
}

func (m *Manifest) entry(keyword string, words []string) (err error) {
	short := fmt.Errorf("%s: %d words are not enough", keyword, len(words))
	switch keyword {
	case "abi":
		if len(words) != 1 {
			return fmt.Errorf("abi: want one number, have %q", words)
		}
		m.ABI, err = strconv.Atoi(words[0])
	case "compiler":
		m.Compiler = strings.Join(words, " ")
	case "compressor":
		m.Compressor = strings.Join(words, " ")
	case "options":
		m.Options = words
	case "architectures":
		m.Architectures = words
	case "source":
		if len(words) != 2 {
			return fmt.Errorf("source: want a path and a sum, have %q", words)
		}
		m.Sources = append(m.Sources, Source{Path: words[0], Sum: words[1]})
	case "unit":
		if len(words) < 2 {
			return short
		}
		m.Units = append(m.Units, Unit{File: words[0], Sources: words[1:]})
	case "archive":
		if len(words) != 2 && len(words) != 3 {
			return fmt.Errorf("archive: want a name, a sum and a dictionary, have %q", words)
		}
		a := Archive{Name: words[0], Sum: words[1]}
		if len(words) == 3 {
			a.Base = words[2]
		}
		m.Archives = append(m.Archives, a)
	case "family":
		if len(words) != 5 {
			return fmt.Errorf("family: want a name, unit, archive, size and sum, have %q", words)
		}
		f := Family{Name: words[0], File: words[1], Archive: words[2], Sum: words[4]}
		if f.Size, err = strconv.Atoi(words[3]); err != nil || f.Size < 1 || f.Size > maxImage || f.Size%8 != 0 {
			return fmt.Errorf("family %s: %q is no size of an image", f.Name, words[3])
		}
		m.Families = append(m.Families, f)
	case "kernel":
		if len(words) < 4 {
			return short
		}
		k := Kernel{Symbol: words[0], Family: words[1]}
		numbers := make([]int, len(words)-2)
		for i, w := range words[2:] {
			if numbers[i], err = strconv.Atoi(w); err != nil || numbers[i] < 0 {
				return fmt.Errorf("kernel %s: %q is no count", k.Symbol, w)
			}
		}
		k.Threads, k.Shared, k.Registers = numbers[0], numbers[1], numbers[2:]
		m.Kernels = append(m.Kernels, k)
	default:
		return fmt.Errorf("unknown entry %q", keyword)
	}
	return err
}

// complete checks the entries against each other.
func (m *Manifest) complete() error {
	if m.ABI == 0 || m.Compiler == "" || m.Compressor == "" || len(m.Architectures) == 0 {
		return fmt.Errorf("abi, compiler, compressor or architectures are missing")
	}
	if err := ordered("source", m.Sources, func(s Source) string { return s.Path }); err != nil {
		return err
	}
	if err := ordered("unit", m.Units, func(u Unit) string { return u.File }); err != nil {
		return err
	}
	if err := ordered("archive", m.Archives, func(a Archive) string { return a.Name }); err != nil {
		return err
	}
	if err := ordered("family", m.Families, func(f Family) string { return f.Name }); err != nil {
		return err
	}
	if err := ordered("kernel", m.Kernels, func(k Kernel) string { return k.Symbol }); err != nil {
		return err
	}
	for _, u := range m.Units {
		for _, path := range u.Sources {
			if !slices.ContainsFunc(m.Sources, func(s Source) bool { return s.Path == path }) {
				return fmt.Errorf("unit %s: source %s is not listed", u.File, path)
			}
		}
	}
	for _, a := range m.Archives {
		for b, n := a, 0; b.Base != ""; n++ {
			base, ok := m.Archive(b.Base)
			if !ok || n == len(m.Archives) { // it is its own
				return fmt.Errorf("archive %s: %s is no dictionary", a.Name, b.Base)
			}
			b = base
		}
	}
	for _, f := range m.Families {
		switch {
		case !slices.ContainsFunc(m.Units, func(u Unit) bool { return u.File == f.File }):
			return fmt.Errorf("family %s: unit %s is not listed", f.Name, f.File)
		case !listed(m.Archive, f.Archive):
			return fmt.Errorf("family %s: archive %s is not listed", f.Name, f.Archive)
		case !slices.ContainsFunc(m.Kernels, func(k Kernel) bool { return k.Family == f.Name }):
			return fmt.Errorf("family %s has no kernel", f.Name)
		}
	}
	machines := len(Machines(m.Architectures))
	for _, k := range m.Kernels {
		switch {
		case !slices.ContainsFunc(m.Families, func(f Family) bool { return f.Name == k.Family }):
			return fmt.Errorf("kernel %s: family %s is not listed", k.Symbol, k.Family)
		case k.Threads < 1 || k.Threads > 1024:
			return fmt.Errorf("kernel %s: %d threads a block, want 1 to 1024", k.Symbol, k.Threads)
		case len(k.Registers) != machines:
			return fmt.Errorf("kernel %s: registers for %d architectures, want %d", k.Symbol, len(k.Registers), machines)
		}
	}
	for _, a := range m.Archives {
		if m.Bytes(a.Name) == 0 {
			return fmt.Errorf("archive %s holds no family", a.Name)
		}
	}
	return nil
}

// ordered checks that a list is sorted by name and names nothing twice.
func ordered[T any](kind string, list []T, name func(T) string) error {
	for i := 1; i < len(list); i++ {
		if name(list[i-1]) >= name(list[i]) {
			return fmt.Errorf("%s %s comes after %s", kind, name(list[i]), name(list[i-1]))
		}
	}
	return nil
}

func listed[T any](find func(name string) (T, bool), name string) bool {
	_, ok := find(name)
	return ok
}
