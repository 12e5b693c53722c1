package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/quality"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
	"github.com/spf13/cobra"
)

// defaultBudget is small for the embedded model's stories, of 400 to 950 tokens, as is the
// context of a scene.
const defaultBudget, defaultContext = 128, 128

// qualityFlags are the settings of quality.
type qualityFlags struct {
	model             modelFlags
	text              string
	formats, policies []string
	budgets           []int
	scenes            []string
	context           int
	device            deviceFlags
	json              bool
	svg               string
}

func newQuality() *cobra.Command {
	var f qualityFlags
	var about strings.Builder
	for _, format := range quality.Formats() {
		fmt.Fprintf(&about, "  %-14s %s\n", format.Name, format.About)
	}
	about.WriteString("\nPolicies\n")
	for _, policy := range quality.Policies() {
		fmt.Fprintf(&about, "  %-14s %s\n", policy.Name, policy.About)
	}
	about.WriteString("\nScenes\n")
	for _, scene := range quality.Scenes() {
		fmt.Fprintf(&about, "  %-14s %s\n", scene.Name, scene.About)
	}
	cmd := &cobra.Command{
		Use:   "quality",
		Short: "Measure what quantized caches and eviction cost a model's predictions",
		Long: `quality lets a model read texts with its keys and values in one format after another,
and compares what it predicts after each token with the predictions from a cache of
everything in f32. A row is a format and an eviction policy:

  nll    negative log-likelihood of the text, in nats a token
  loss   by how much that is above f32's
  kl     Kullback-Leibler divergence of the prediction from f32's, in nats
  top1   how often the likeliest token is the same as with f32
  bytes  the most that the cache held of a text: blocks in use, with all scales

Without --format and --policy the rows are all formats with everything kept, then f32
under all policies. --format alone keeps everything, --policy alone measures f32, and
of both every pair is a row. Formats that the device lacks are skipped by name, as are
pairs that cannot be combined; one that was asked for with --format is an error.

A text is read from its beginning, as many tokens as the model's context has. Texts of a
file are separated by <|endoftext|>. Policies, and formats that keep the last tokens
exact, read one token a step, as in decoding.

With --scene the cache is used in another way, in f32, too: there is a table for each
scene, of formats with everything kept, and all is compared with f32 in the same scene,
with nothing reused. Texts that are too short for a scene are left out of it.

Formats
` + about.String(),
		Example: `  # all formats, then all policies, on the embedded model and nine stories
  ferrumkv quality

  # how much does a budget cost, in int8?
  ferrumkv quality --format int8 --policy sliding,h2o,snapkv --budget 64,128,256

  # what does KIVI lose where prefixes are reused, and where contexts are shifted?
  ferrumkv quality --scene afresh,reuse,shift --format f32,int4,kivi4

  # a model and a text of your own, as lines of JSON and as a plot
  ferrumkv quality --model stories260K.bin --tokenizer tok512.bin --text sample.txt --json --svg quality.svg`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.model.register(cmd)
	flags.StringVar(&f.text, "text", "", "`FILE` of texts (default: stories that come with the embedded model)")
	flags.StringSliceVar(&f.formats, "format", nil, "formats, each a `NAME`: see above")
	flags.StringSliceVar(&f.policies, "policy", nil, "eviction policies, each a `NAME`: see above")
	flags.IntSliceVar(&f.budgets, "budget", []int{defaultBudget}, "tokens that a policy leaves in a layer, on average over the layers: a row for each `N`")
	flags.StringSliceVar(&f.scenes, "scene", nil, "ways to use the cache, each a `NAME`: see above (default: a text is read once)")
	flags.IntVar(&f.context, "context", defaultContext, "`N` tokens that a query of scene window sees, or a sequence of scene shift has room for")
	f.device.register(cmd)
	flags.BoolVar(&f.json, "json", false, "print a line of JSON for each row")
	flags.StringVar(&f.svg, "svg", "", "draw loss over bytes to `FILE`")
	return cmd
}

func (f qualityFlags) run(cmd *cobra.Command) (err error) {
	if err := checkOutput("svg", f.svg); err != nil {
		return err
	}
	p, err := f.plan()
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("budget") && !p.evicts() {
		return errors.New("--budget: no row has a policy that evicts; name some with --policy")
	}
	if cmd.Flags().Changed("context") && !p.bounded() {
		return errors.New("--context: no scene has one; name window or shift with --scene")
	}
	be, err := f.device.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	if err := p.on(be); err != nil {
		return err
	}
	model, tokenizer, err := f.model.load(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	texts, from, err := f.read(model, tokenizer)
	if err != nil {
		return err
	}
	for _, why := range p.skipped {
		fmt.Fprintf(cmd.ErrOrStderr(), "skipped  %s\n", why)
	}
	bar := &progressBar{line: newProgress(cmd.ErrOrStderr())}
	defer bar.line.clear()
	meters, err := p.meters(quality.NewMeter(be, model, texts, f.device.threads), bar)
	if err != nil {
		return err
	}
	r := qualityReport{out: cmd.OutOrStdout(), json: f.json, model: f.shape(model), references: map[string]quality.Score{}}
	of := fmt.Sprintf("%s of %s", count(len(texts), "text"), from)
	if p.plain() {
		of += fmt.Sprintf(", %s tokens predicted", grouped(meters[0].Tokens()))
	}
	if err := r.head(of, be.Info().Name); err != nil {
		return err
	}
	for i, meter := range meters {
		if err := p.measure(cmd.Context(), meter, bar, &r); err != nil {
			return asFlag(err)
		}
		meters[i] = nil // its logits are many
	}
	if f.svg == "" {
		return nil
	}
	return r.draw(f.svg)
}

// shape says which model it is.
func (f qualityFlags) shape(m *runner.Model) string {
	return fmt.Sprintf("%s, %s, %s of %d", filepath.Base(f.model.name()), count(len(m.Layers), "layer"), count(m.KVHeads, "KV head"), m.HeadDim)
}

// read returns the texts as tokens, and what they are called.
func (f qualityFlags) read(m *runner.Model, t *tokenizer.Tokenizer) (texts [][]uint32, from string, err error) {
	from = "stories.txt"
	read := modeldata.Files.ReadFile
	if f.text != "" {
		from, read = f.text, os.ReadFile
	}
	data, err := read(from)
	if err != nil {
		return nil, "", fmt.Errorf("--text %s: %w", from, err)
	}
	if texts, err = quality.Texts(string(data), m, t); err != nil {
		return nil, "", fmt.Errorf("--text %s: %w", from, err)
	}
	return texts, from, nil
}
