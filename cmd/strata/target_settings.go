package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// settable are the flags of a target that the environment and the configuration file may have
// instead. A password is in these only: the arguments of a process are there for all to see.
var settable = []string{"bootstrap", "timeout", "tls", "tls-ca", "tls-cert", "tls-key", "tls-server-name", "tls-insecure", "user", "sasl", "token-file"}

const passwordSetting = "password"

// Where the environment has settings, and the name of the file with the others.
const (
	bootstrapEnv = "STRATA_BOOTSTRAP"
	configEnv    = "STRATA_CONFIG"
)

func envOf(setting string) string {
	return "STRATA_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// fill sets what no flag has set: as the environment says, and else as the configuration file does.
// A directory needs none of it.
func (tg *target) fill() error {
	if tg.dir != "" {
		return nil
	}
	file, err := readSettings(tg.config)
	if err != nil {
		return err
	}
	for _, name := range settable {
		if tg.set.Changed(name) {
			continue
		}
		v, from := file[name], "the configuration file's "+name
		if env := os.Getenv(envOf(name)); env != "" {
			v, from = env, "$"+envOf(name)
		}
		if v == "" {
			continue
		}
		if err := tg.set.Set(name, v); err != nil {
			return misuse("%s: %v", from, errors.Unwrap(err))
		}
	}
	tg.login.password = os.Getenv(envOf(passwordSetting))
	if tg.login.password == "" {
		tg.login.password = file[passwordSetting]
	}
	if len(tg.bootstrap) == 0 {
		return misuse("which cluster? --bootstrap HOST:PORT, --dir DIR, the environment's %s, or bootstrap in a configuration file (--config)", bootstrapEnv)
	}
	return nil
}

// readSettings reads the configuration file of that name: lines name = value, # for comments. With
// no name it is that of the environment, and else the user's, if there is one.
func readSettings(name string) (map[string]string, error) {
	settings := map[string]string{}
	optional := false
	if name == "" {
		var set bool
		if name, set = os.LookupEnv(configEnv); !set {
			dir, err := os.UserConfigDir()
			if err != nil {
				return settings, nil // nobody has one: no home directory
			}
			name, optional = filepath.Join(dir, "strata", "config"), true
		} else if name == "" {
			return settings, nil
		}
	}
	f, err := os.Open(name)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return settings, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch { // the value is not told: it may be a password
		case !ok || value == "":
			return nil, misuse("%s, line %d: it is name = value", name, n)
		case key != passwordSetting && !slices.Contains(settable, key):
			return nil, misuse("%s, line %d: no setting is called %s; there are %s and %s", name, n, key, strings.Join(settable, ", "), passwordSetting)
		case settings[key] != "":
			return nil, misuse("%s, line %d: %s is there twice", name, n, key)
		}
		settings[key] = value
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("configuration: %s: %w", name, err)
	}
	return settings, nil
}
