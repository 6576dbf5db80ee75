// The adaptors of the Go libraries: `adaptor go-oidc …` and `adaptor go-jose …`.
//
// One program for both, because go-oidc stands on go-jose and one lock file then pins what both use. This file is the
// half that verifies nothing: the command line, and the lines of the protocol (tests/interop/README.md). What a
// relying party writes is in gooidc.go and gojose.go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Settings is what a relying party knows beforehand.
type Settings struct {
	Issuer   string
	Audience string
	// Algorithms is empty where the library's own default is wanted.
	Algorithms []string
}

// Verify answers the claims of a token that is accepted, as they are in the token.
type Verify func(ctx context.Context, token string) (json.RawMessage, error)

// Library is one relying party.
type Library struct {
	module     string
	algorithms []string
	configure  func(ctx context.Context, settings Settings) (Verify, error)
}

var libraries = map[string]Library{
	"go-oidc": {"github.com/coreos/go-oidc/v3", oidcAlgorithms, configureOIDC},
	"go-jose": {"github.com/go-jose/go-jose/v4", joseAlgorithms, configureJOSE},
}

const usage = "usage: adaptor go-oidc|go-jose [--issuer URL --audience A [--algorithms RS256,ES256] TOKEN|-]"

const (
	exitRefused = 1
	exitUsage   = 64
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) == 0 {
		return misused("no library is named")
	}
	library, known := libraries[args[0]]
	if !known {
		return misused(fmt.Sprintf("no such library: %s", args[0]))
	}
	if len(args) == 1 {
		return answer(args[0], library, os.Stdin, os.Stdout)
	}
	return once(library, args[1:])
}

func misused(why string) int {
	fmt.Fprintf(os.Stderr, "%s\n%s\n", why, usage)
	return exitUsage
}

// once is the command line for a person: one token.
func once(library Library, args []string) int {
	var settings Settings
	var algorithms string
	flags := flag.NewFlagSet("adaptor", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&settings.Issuer, "issuer", "", "")
	flags.StringVar(&settings.Audience, "audience", "", "")
	flags.StringVar(&algorithms, "algorithms", "", "")
	if err := flags.Parse(args); err != nil {
		return misused(err.Error())
	}
	if settings.Issuer == "" || settings.Audience == "" || flags.NArg() != 1 {
		return misused("wanted: --issuer, --audience and one token")
	}
	if algorithms != "" {
		settings.Algorithms = strings.Split(algorithms, ",")
	}
	token := flags.Arg(0)
	if token == "-" {
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			return refused(err)
		}
		token = strings.TrimSpace(string(text))
	}
	verify, err := library.configure(context.Background(), settings)
	if err != nil {
		return refused(err)
	}
	claims, err := verify(context.Background(), token)
	if err != nil {
		return refused(err)
	}
	fmt.Println(string(claims))
	return 0
}

func refused(err error) int {
	fmt.Fprintf(os.Stderr, "%s: %s\n", nameOf(err), err)
	return exitRefused
}

type hello struct {
	Library    string   `json:"library"`
	Version    string   `json:"version"`
	Algorithms []string `json:"algorithms"`
}

type request struct {
	Verb       string   `json:"verb"`
	Issuer     string   `json:"issuer"`
	Audience   string   `json:"audience"`
	Algorithms []string `json:"algorithms"`
	Token      *string  `json:"token"`
}

type reply struct {
	OK      bool            `json:"ok"`
	Claims  json.RawMessage `json:"claims,omitempty"`
	Error   string          `json:"error,omitempty"`
	Message string          `json:"message,omitempty"`
}

// answer speaks the protocol until the input ends.
func answer(name string, library Library, in io.Reader, out io.Writer) int {
	lines := bufio.NewReader(in)
	replies := json.NewEncoder(out)
	replies.SetEscapeHTML(false)
	if err := replies.Encode(hello{name, versionOf(library.module), library.algorithms}); err != nil {
		return exitRefused
	}
	var verify Verify
	for {
		// Not a Scanner: it has a longest line, and a token has none.
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := replies.Encode(handle(library, &verify, line)); err != nil {
				return exitRefused
			}
		}
		if err != nil {
			return 0
		}
	}
}

func handle(library Library, verify *Verify, line []byte) reply {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return badRequest(err.Error())
	}
	switch asked.Verb {
	case "configure":
		*verify = nil
		configured, err := library.configure(context.Background(), Settings{asked.Issuer, asked.Audience, asked.Algorithms})
		if err != nil {
			return failed(err)
		}
		*verify = configured
		return reply{OK: true}
	case "verify":
		if *verify == nil {
			return badRequest("verify before a configure that was answered with ok")
		}
		if asked.Token == nil {
			return badRequest("wanted: a token")
		}
		claims, err := (*verify)(context.Background(), *asked.Token)
		if err != nil {
			return failed(err)
		}
		return reply{OK: true, Claims: claims}
	default:
		return badRequest(fmt.Sprintf("no such verb: %q", asked.Verb))
	}
}

func badRequest(message string) reply {
	return reply{Error: "bad_request", Message: message}
}

func failed(err error) reply {
	return reply{Error: nameOf(err), Message: err.Error()}
}

// A value within an error's text: quoted, in brackets, or a time.
var value = regexp.MustCompile(`"(\\.|[^"\\])*"|\[[^\]]*\]|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S* \S+ \S+( m=\S+)?`)

// nameOf is what a golden file can hold of an error: its type where there is one for it, and else its text without the
// values in it. Most errors of both libraries are texts and nothing more.
func nameOf(err error) string {
	var expired *oidc.TokenExpiredError
	var mismatch *oidc.IssuerMismatchError
	var transport *url.Error
	switch {
	case errors.As(err, &expired):
		return "TokenExpiredError"
	case errors.As(err, &mismatch):
		return "IssuerMismatchError"
	case errors.As(err, &transport):
		return "url.Error"
	}
	return value.ReplaceAllString(err.Error(), "…")
}

// versionOf reads the version that was linked, from the program itself.
func versionOf(module string) string {
	build, ok := debug.ReadBuildInfo()
	if ok {
		for _, dependency := range build.Deps {
			if dependency.Path == module {
				return strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	return "unknown"
}
