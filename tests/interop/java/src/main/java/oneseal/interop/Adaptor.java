package oneseal.interop;

import com.nimbusds.jose.util.JSONObjectUtils;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.text.ParseException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The adaptors of the Java libraries: {@code Adaptor nimbus …} and {@code Adaptor spring …}.
 *
 * <p>This class is the half that knows no library: the command line, and the lines of the protocol
 * (tests/interop/README.md). What a relying party writes is in the classes beside it. Its JSON is Nimbus's, which both
 * have on their class path anyway.
 */
public final class Adaptor {

    private static final Map<String, RelyingParty.Library> LIBRARIES =
            Map.of("nimbus", NimbusRelyingParty.LIBRARY, "spring", SpringRelyingParty.LIBRARY);
    private static final List<String> OURS = List.of("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA");
    private static final String USAGE =
            "usage: Adaptor nimbus|spring [--issuer URL --audience A [--algorithms RS256,ES256] TOKEN|-]";
    private static final int REFUSED = 1;
    private static final int MISUSED = 64;

    private final PrintStream out =
            new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    private final String name;
    private final RelyingParty.Library library;
    private RelyingParty party;

    private Adaptor(String name) {
        this.name = name;
        library = LIBRARIES.get(name);
    }

    public static void main(String[] words) throws IOException {
        System.exit(run(List.of(words)));
    }

    private static int run(List<String> words) throws IOException {
        if (words.isEmpty() || !LIBRARIES.containsKey(words.get(0))) {
            return misused("a library must be named first");
        }
        Adaptor adaptor = new Adaptor(words.get(0));
        return words.size() == 1 ? adaptor.answer() : adaptor.once(words.subList(1, words.size()));
    }

    private static int misused(String why) {
        System.err.println(why + "\n" + USAGE);
        return MISUSED;
    }

    /** The command line for a person: one token. */
    private int once(List<String> words) throws IOException {
        Map<String, String> options = new HashMap<>();
        String token = null;
        for (var word = words.iterator(); word.hasNext(); ) {
            String next = word.next();
            if (List.of("--issuer", "--audience", "--algorithms").contains(next) && word.hasNext()) {
                options.put(next, word.next());
            } else if (next.startsWith("--") || token != null) {
                return misused("not understood: " + next);
            } else {
                token = next;
            }
        }
        if (token == null || !options.containsKey("--issuer") || !options.containsKey("--audience")) {
            return misused("wanted: --issuer, --audience and one token");
        }
        if (token.equals("-")) {
            token = new String(System.in.readAllBytes(), StandardCharsets.UTF_8).strip();
        }
        String algorithms = options.get("--algorithms");
        List<String> named = algorithms == null ? null : Arrays.asList(algorithms.split(","));
        try {
            configure(options.get("--issuer"), options.get("--audience"), named);
            out.println(JSONObjectUtils.toJSONString(party.verify(token)));
            return 0;
        } catch (Exception error) {
            System.err.println(nameOf(error) + ": " + textOf(error));
            return REFUSED;
        }
    }

    /** Speaks the protocol until the input ends. */
    private int answer() throws IOException {
        List<String> algorithms = OURS.stream().filter(library.algorithms()::contains).toList();
        out.println(
                JSONObjectUtils.toJSONString(
                        ordered("library", name, "version", library.version(), "algorithms", algorithms)));
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(JSONObjectUtils.toJSONString(handle(line)));
        }
        return 0;
    }

    private Map<String, Object> handle(String line) {
        try {
            Map<String, Object> request = JSONObjectUtils.parse(line);
            String verb = request == null ? null : JSONObjectUtils.getString(request, "verb");
            if ("configure".equals(verb)) {
                party = null;
                configure(
                        word(request, "issuer"),
                        word(request, "audience"),
                        JSONObjectUtils.getStringList(request, "algorithms"));
                return ordered("ok", true);
            }
            if (!"verify".equals(verb)) {
                return refused("bad_request", "wanted: an object with the verb configure or verify");
            }
            if (party == null) {
                return refused("bad_request", "verify before a configure that was answered with ok");
            }
            return verify(word(request, "token"));
        } catch (ParseException error) {
            return refused("bad_request", error.getMessage());
        } catch (Exception error) {
            return refused(nameOf(error), textOf(error));
        }
    }

    private static String word(Map<String, Object> request, String name) throws ParseException {
        String value = JSONObjectUtils.getString(request, name);
        if (value == null) {
            throw new ParseException("wanted: " + name + ", a text", 0);
        }
        return value;
    }

    private void configure(String issuer, String audience, List<String> algorithms) throws Exception {
        party = library.factory().configure(new RelyingParty.Settings(issuer, audience, algorithms));
    }

    /** A ParseException of the library's is about the token, not the line. */
    private Map<String, Object> verify(String token) {
        try {
            return ordered("ok", true, "claims", party.verify(token));
        } catch (Exception error) {
            return refused(nameOf(error), textOf(error));
        }
    }

    /** With the name of its cause: most of what Spring refuses has one name of its own, and Nimbus's reason below. */
    private static String nameOf(Exception error) {
        String name = error.getClass().getSimpleName();
        Throwable cause = error.getCause();
        return cause == null ? name : name + ": " + cause.getClass().getSimpleName();
    }

    /** With its causes, unless told already: Spring's own text leaves out what could not be reached. Then its notes. */
    private static String textOf(Exception error) {
        StringBuilder text = new StringBuilder(String.valueOf(error.getMessage()));
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            if (cause.getMessage() == null || text.indexOf(cause.getMessage()) < 0) {
                text.append("; because of ").append(cause);
            }
        }
        for (Throwable note : error.getSuppressed()) {
            text.append("; ").append(note.getMessage());
        }
        return text.toString();
    }

    private static Map<String, Object> refused(String error, String message) {
        return ordered("ok", false, "error", error, "message", message);
    }

    private static Map<String, Object> ordered(Object... pairs) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            map.put((String) pairs[at], pairs[at + 1]);
        }
        return map;
    }
}
