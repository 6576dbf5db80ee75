package oneseal.interop;

import com.nimbusds.jose.JWSAlgorithm;
import com.nimbusds.jose.crypto.factories.DefaultJWSVerifierFactory;
import com.nimbusds.jose.jwk.source.JWKSourceBuilder;
import com.nimbusds.jose.proc.JWSVerificationKeySelector;
import com.nimbusds.jose.proc.SecurityContext;
import com.nimbusds.jose.util.DefaultResourceRetriever;
import com.nimbusds.jose.util.JSONObjectUtils;
import com.nimbusds.jose.util.Resource;
import com.nimbusds.jwt.JWTClaimsSet;
import com.nimbusds.jwt.proc.DefaultJWTClaimsVerifier;
import com.nimbusds.jwt.proc.DefaultJWTProcessor;
import java.io.IOException;
import java.net.URI;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * Nimbus as its page on validating JWTs shows it: a key source with all its defaults (cache, refresh ahead, rate limit;
 * no retry, no outage cache), a key selector, a claims verifier.
 *
 * <p>Discovery belongs to its sister library, so it is done by hand here. A key selector always names its algorithms;
 * where none are given, those that discovery lists are allowed.
 */
final class NimbusRelyingParty implements RelyingParty {

    static final Library LIBRARY =
            new Library(
                    JWSAlgorithm.class,
                    DefaultJWSVerifierFactory.SUPPORTED_ALGORITHMS.stream()
                            .map(JWSAlgorithm::getName)
                            .collect(Collectors.toUnmodifiableSet()),
                    NimbusRelyingParty::new);

    private static final int TIMEOUT_MS = 5_000;

    private final DefaultJWTProcessor<SecurityContext> processor = new DefaultJWTProcessor<>();

    NimbusRelyingParty(Settings settings) throws Exception {
        Map<String, Object> metadata = discover(settings.issuer());
        List<String> names =
                settings.algorithms() != null
                        ? settings.algorithms()
                        : JSONObjectUtils.getStringList(metadata, "id_token_signing_alg_values_supported");
        Set<JWSAlgorithm> algorithms = names.stream().map(JWSAlgorithm::parse).collect(Collectors.toSet());
        var keys = JWKSourceBuilder.create(JSONObjectUtils.getURI(metadata, "jwks_uri").toURL()).build();
        processor.setJWSKeySelector(new JWSVerificationKeySelector<>(algorithms, keys));
        processor.setJWTClaimsSetVerifier(
                new DefaultJWTClaimsVerifier<>(
                        settings.audience(),
                        new JWTClaimsSet.Builder().issuer(settings.issuer()).build(),
                        Set.of("sub", "iat", "exp")));
    }

    private static Map<String, Object> discover(String issuer) throws Exception {
        var retriever = new DefaultResourceRetriever(TIMEOUT_MS, TIMEOUT_MS);
        String location = issuer.replaceFirst("/$", "") + "/.well-known/openid-configuration";
        Map<String, Object> metadata = JSONObjectUtils.parse(fetch(retriever, location).getContent());
        String named = JSONObjectUtils.getString(metadata, "issuer");
        if (!issuer.equals(named)) {
            throw new IllegalStateException("discovery names another issuer: " + named);
        }
        return metadata;
    }

    /** Most of its errors name no URL, so that goes with them as a note. */
    private static Resource fetch(DefaultResourceRetriever retriever, String location) throws IOException {
        try {
            return retriever.retrieveResource(URI.create(location).toURL());
        } catch (IOException error) {
            error.addSuppressed(new IOException("while reading " + location));
            throw error;
        }
    }

    @Override
    public Map<String, Object> verify(String token) throws Exception {
        return processor.process(token, null).toJSONObject();
    }
}
