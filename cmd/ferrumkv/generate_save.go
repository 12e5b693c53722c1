package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
	"github.com/spf13/cobra"
)

// noteName is what generate calls what it adds to a snapshot.
const noteName = "github.com/ferrumkv/ferrumkv/cmd/ferrumkv generate"

// saves are the files that a generation begins with and ends in.
type saves struct {
	save, resume string
	compress     bool
	secret       []byte

	note savedNote                         // of the file that it goes on from
	from []runner.Held[backend.AnyBuffer]  // its texts
	held []*runner.Held[backend.AnyBuffer] // those that are saved
}

// savedNote is what a snapshot's sequences do not say.
type savedNote struct {
	runner.Sampling
	Texts []savedText `json:"texts"`
}

type savedText struct {
	Tokens  []uint32 `json:"tokens"` // of the text: one more than are in the cache, as a rule
	Sampler []byte   `json:"sampler"`
	Over    bool     `json:"over,omitempty"`
}

func (s *saves) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.save, "save", "", "`FILE` for the sequences, to continue them later: only its owner can read it, and the text can be computed from it")
	cmd.Flags().StringVar(&s.resume, "resume", "", "`FILE` of an earlier --save to continue from: prints what is new")
	cmd.Flags().BoolVar(&s.compress, "compress", false, "compress the file of --save with zstd, where that makes it smaller")
}

// any reports whether there are files.
func (s *saves) any() bool { return s.save != "" || s.resume != "" }

// check says what cannot be used together, before anything is loaded. The file of --resume has the values of resumed flags.
func (s *saves) check(cmd *cobra.Command, resumed []string) error {
	if s.compress && s.save == "" {
		return errors.New("--compress: is for --save")
	}
	for _, name := range resumed {
		if s.resume != "" && cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s: the file of --resume has it", name)
		}
	}
	return checkSave(s.save)
}

// resumeError says what to do about a file that another model, or other flags, made.
func (s *saves) resumeError(err error) error {
	if m, ok := errors.AsType[snapshot.ErrMismatch](err); ok {
		dtype, _, _ := strings.Cut(m.Have, " ")
		switch m.Field {
		case "keys":
			here, _, _ := strings.Cut(m.Want, " ")
			return fmt.Errorf("--resume %s: has keys in %s, and the cache of this run is to hold them in %s; resume with --kv-dtype %s", s.resume, dtype, here, dtype)
		case "Memory.Capacity":
			return fmt.Errorf("--resume %s: has %s, more than the room of %s; raise --context", s.resume, m.Have, m.Want)
		case "model":
			return fmt.Errorf("--resume %s: is of another model, or of other weights of it; resume with the --model that it was saved with", s.resume)
		case "secret":
			why := map[string]string{"needed": "is sealed; name the secret that it was saved with by --secret",
				"none": "is not sealed, so that anybody can have written it; leave --secret out if you trust where it comes from"}[m.Have]
			return fmt.Errorf("--resume %s: %s", s.resume, cmp.Or(why, "was sealed with another secret than that of --secret"))
		}
		return fmt.Errorf("--resume %s: %w; resume with the flags that it was saved with", s.resume, m)
	}
	return fmt.Errorf("--resume %s: %w", s.resume, err)
}

// lengths is how many texts the file to go on from has, and the tokens of the longest one.
func (s *saves) lengths() (texts, longest int, err error) {
	file, err := os.Open(s.resume)
	if err != nil {
		return 0, 0, fmt.Errorf("--resume: %w", err)
	}
	defer file.Close()
	head, err := snapshot.NewReader(bufio.NewReader(file), snapshot.Options{Compressor: zstd.Compressor{}, Secret: s.secret}).Head()
	if err != nil {
		return 0, 0, s.resumeError(err)
	}
	for _, sequence := range head.Sequences {
		longest = max(longest, sequence.Len+1) // its last token is outside
	}
	return len(head.Sequences), longest, nil
}

// open reads the sequences of the file to go on from, and what a command noted beside them.
func (s *saves) open(pool *kvcache.Pool[backend.AnyBuffer], command, name string, note any) ([]*kvcache.Sequence[backend.AnyBuffer], error) {
	file, err := os.Open(s.resume)
	if err != nil {
		return nil, fmt.Errorf("--resume: %w", err)
	}
	defer file.Close()
	saved, err := pool.Load(file, snapshot.Options{Compressor: zstd.Compressor{}, Secret: s.secret})
	if err != nil {
		return nil, s.resumeError(err)
	}
	at := slices.IndexFunc(saved.Notes, func(n snapshot.Note) bool { return n.Name == name })
	for other, its := range map[string]string{"generate": noteName, "chat": chatNoteName} {
		if at < 0 && slices.ContainsFunc(saved.Notes, func(n snapshot.Note) bool { return n.Name == its }) {
			return nil, fmt.Errorf("--resume %s: it was written by %s --save; resume it with 'ferrumkv %[2]s'", s.resume, other)
		}
	}
	if at < 0 || json.Unmarshal(saved.Notes[at].Data, note) != nil {
		return nil, fmt.Errorf("--resume %s: it was not written by %s --save", s.resume, command)
	}
	return saved.Sequences, nil
}

// load loads the file to go on from.
func (s *saves) load(cmd *cobra.Command, pool *kvcache.Pool[backend.AnyBuffer], vocabulary int, f *generateFlags) error {
	if s.resume == "" {
		return nil
	}
	sequences, err := s.open(pool, "generate", noteName, &s.note)
	if err != nil {
		return err
	}
	if len(s.note.Texts) != len(sequences) || len(sequences) == 0 {
		return fmt.Errorf("--resume %s: it was not written by generate --save", s.resume)
	}
	for i, text := range s.note.Texts {
		if have := sequences[i].Len(); len(text.Tokens) < have || len(text.Tokens) == have && !text.Over {
			return fmt.Errorf("--resume %s: text %d has nothing to go on with", s.resume, i+1)
		}
		sampler, err := runner.NewSampler(runner.Sampling{}, 0)
		if err == nil {
			err = sampler.Restore(text.Sampler)
		}
		if err != nil || slices.ContainsFunc(text.Tokens, func(token uint32) bool { return int(token) >= vocabulary }) {
			return fmt.Errorf("--resume %s: text %d is not one of this model that generate --save wrote", s.resume, i+1)
		}
		s.from = append(s.from, runner.Held[backend.AnyBuffer]{Seq: sequences[i], Tokens: text.Tokens, Sampler: text.Sampler, Over: text.Over})
	}
	f.sampling.resume(cmd, s.note.Sampling)
	f.prompts = make([]string, len(s.from)) // only what is new is printed
	return nil
}

// keep takes a text where it is left; nil: none is saved.
func (s *saves) keep() func(int, runner.Held[backend.AnyBuffer]) error {
	if s.save == "" {
		return nil
	}
	return func(i int, h runner.Held[backend.AnyBuffer]) error {
		s.held[i] = &h
		return nil
	}
}

// finish saves all texts, also those that a signal cut short; failed is the error of generating them. It comes back
// with a note of what became of the file.
func (s *saves) finish(pool *kvcache.Pool[backend.AnyBuffer], of runner.Sampling, failed error) (note string, err error) {
	err = s.write(pool, of)
	switch {
	case failed == nil:
		return "", err
	case s.save == "":
		return "", failed
	case err != nil:
		return fmt.Sprintf("not saved: %v", err), failed
	}
	return fmt.Sprintf("saved to %s what there is; --resume goes on from there", s.save), failed
}

// write saves all texts, if they are to be.
func (s *saves) write(pool *kvcache.Pool[backend.AnyBuffer], of runner.Sampling) error {
	if s.save == "" {
		return nil
	}
	var sequences []*kvcache.Sequence[backend.AnyBuffer]
	note := savedNote{Sampling: of}
	for i, h := range s.held {
		if h == nil {
			return fmt.Errorf("--save %s: text %d has no cache that could be saved", s.save, i+1)
		}
		sequences = append(sequences, h.Seq)
		note.Texts = append(note.Texts, savedText{h.Tokens, h.Sampler, h.Over})
	}
	err := s.store(pool, sequences, noteName, note)
	if err != nil {
		return err
	}
	for _, h := range s.held {
		err = errors.Join(err, h.Seq.Release())
	}
	return err
}

// store writes sequences, and what a command notes beside them.
func (s *saves) store(pool *kvcache.Pool[backend.AnyBuffer], sequences []*kvcache.Sequence[backend.AnyBuffer], name string, note any) error {
	data, err := json.Marshal(note)
	if err != nil {
		return err
	}
	what := kvcache.Saved[backend.AnyBuffer]{Sequences: sequences, Notes: []snapshot.Note{{Name: name, Data: data}}}
	o := snapshot.Options{Secret: s.secret}
	if s.compress {
		o.Compressor = zstd.Compressor{}
	}
	if err := snapshot.WriteFile(s.save, func(w io.Writer) error { return pool.Save(w, what, o) }); err != nil {
		return fmt.Errorf("--save %s: %w", s.save, err)
	}
	return nil
}

// seal has files sealed with the secret, if there is one.
func (s *saves) seal(secret secretFlag, cfg *kvcache.Config) (err error) {
	if s.secret, err = secret.read(); err != nil || s.secret == nil {
		return err
	}
	disk := cfg.Tiers.Disk.Dir != "" || os.Getenv(config.EnvDiskDir) != ""
	if disk {
		cfg.Tiers.Secret = s.secret
	}
	if !disk && !s.any() {
		return fmt.Errorf("--secret %s: is for --save, --resume and --disk", secret.file)
	}
	return nil
}
