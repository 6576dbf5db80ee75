package oneseal.interop;

import java.net.URL;
import java.time.Instant;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;
import org.springframework.security.oauth2.jose.jws.SignatureAlgorithm;
import org.springframework.security.oauth2.jwt.JwtAudienceValidator;
import org.springframework.security.oauth2.jwt.JwtDecoder;
import org.springframework.security.oauth2.jwt.JwtIssuerValidator;
import org.springframework.security.oauth2.jwt.JwtValidators;
import org.springframework.security.oauth2.jwt.NimbusJwtDecoder;

/**
 * Spring Security's decoder by the issuer's location: discovery, key set and signature are its own, and to its default
 * validators (type, times) come those of issuer and audience, as its page on resource servers shows.
 *
 * <p>Without algorithms it takes those of the keys that are published while it is built, RSA and EC alone.
 */
final class SpringRelyingParty implements RelyingParty {

    static final Library LIBRARY =
            new Library(
                    NimbusJwtDecoder.class,
                    Arrays.stream(SignatureAlgorithm.values())
                            .map(SignatureAlgorithm::getName)
                            .collect(Collectors.toUnmodifiableSet()),
                    SpringRelyingParty::new);

    private final JwtDecoder decoder;

    SpringRelyingParty(Settings settings) {
        var builder = NimbusJwtDecoder.withIssuerLocation(settings.issuer());
        if (settings.algorithms() != null) {
            settings.algorithms().forEach(name -> builder.jwsAlgorithm(algorithm(name)));
        }
        NimbusJwtDecoder built = builder.build();
        built.setJwtValidator(
                JwtValidators.createDefaultWithValidators(
                        new JwtIssuerValidator(settings.issuer()), new JwtAudienceValidator(settings.audience())));
        decoder = built;
    }

    private static SignatureAlgorithm algorithm(String name) {
        SignatureAlgorithm known = SignatureAlgorithm.from(name);
        if (known == null) {
            throw new IllegalArgumentException("Spring Security has no algorithm " + name);
        }
        return known;
    }

    @Override
    public Map<String, Object> verify(String token) {
        Map<String, Object> claims = new LinkedHashMap<>();
        decoder.decode(token).getClaims().forEach((name, value) -> claims.put(name, plain(value)));
        return claims;
    }

    /** The decoder has turned some claims into types of Java's. */
    private static Object plain(Object value) {
        if (value instanceof Instant time) {
            return time.getEpochSecond();
        }
        return value instanceof URL url ? url.toString() : value;
    }
}
