package oneseal.interop;

import java.util.List;
import java.util.Map;
import java.util.Set;

/** A library, set up as its documentation says, for one issuer. */
interface RelyingParty {

    /** What a relying party knows beforehand; without algorithms the library's own default is wanted. */
    record Settings(String issuer, String audience, List<String> algorithms) {}

    /** Makes one. Fails where the issuer cannot be reached or is another. */
    interface Factory {
        RelyingParty configure(Settings settings) throws Exception;
    }

    /** What is known of a library without an issuer. */
    record Library(Class<?> from, Set<String> algorithms, Factory factory) {

        /** The version in the manifest of the jar that was loaded. */
        String version() {
            return from.getPackage().getImplementationVersion();
        }
    }

    /** The claims of a token that is accepted. */
    Map<String, Object> verify(String token) throws Exception;
}
